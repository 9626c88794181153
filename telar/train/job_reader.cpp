#include "telar/train/job_reader.h"

#include <algorithm>
#include <map>
#include <optional>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/source.h"
#include "telar/io/text_file.h"
#include "telar/train/checkpoint.h"
#include "telar/train/job_checks.h"
#include "telar/train/job_keys.h"
#include "telar/train/job_model.h"
#include "telar/train/job_strategy.h"
#include "telar/train/job_value.h"
#include "telar/train/sample_file.h"

namespace telar {

namespace {

class Reader {
 public:
  Reader(const JobNode& root, const std::string& source, int64_t processes)
      : root_(root), source_(source), processes_(processes) {}

  Job read() {
    collect(root_, "");
    Job job;
    job.strategy.implied = processes_ > 1 && !given_.contains("strategy.name");
    if (job.strategy.implied) job.strategy.name = data_parallel_type().name;
    const JobNode* model = root_.find("model");
    if (model == nullptr) {
      throw user_error(
          "{}: the job has no 'model'; name one from the zoo, as in 'model: mlp', or list its layers",
          source_);
    }
    job.model = read_model_job(*model);
    for (const JobKey& key : job_keys()) read_key(key, job);
    fill_in_defaults(job);
    give_each_device_its_own(job.strategy);
    check_job(job, [this](const std::string& key) {
      const auto found = given_.find(key);
      return found == given_.end() ? source_ : found->second->where;
    });
    return job;
  }

 private:
  /// If there are several devices and the job does not set the number of workers, each device gets one. So
  /// does each process of several that share a job which names no strategy.
  void give_each_device_its_own(StrategyJob& strategy) const {
    const auto devices = static_cast<int64_t>(strategy.devices.size());
    const std::string& count = type_of(strategy).count;
    if (count.empty() || given_.contains("strategy." + count) || (devices < 2 && !strategy.implied)) return;
    strategy.options.set(count, std::max<int64_t>(1, devices - cooperation_of(strategy).backups));
  }

  /// Collects every key below `node`.
  void collect(const JobNode& node, const std::string& prefix) {
    for (const JobEntry& entry : node.entries) {
      if (prefix.empty() && entry.key == "model") continue;
      const std::string path = without_alias(prefix + entry.key);
      const bool key = exists(path);
      const bool section = !key && is_section(path);
      if (!key && !section) throw unknown_key(entry, prefix);
      if (key) {
        give(path, entry);
      } else if (entry.value.kind == JobNode::Kind::map) {
        collect(entry.value, path + ".");
      } else if (entry.value.kind != JobNode::Kind::null) {
        throw user_error("{}: {} is {}; it must be a group of keys", entry.value.where, path,
                         entry.value.described());
      }
    }
  }

  /// The full path for a short name at the top of a job, or for the former name of a key.
  static std::string without_alias(const std::string& path) {
    return path == "device" || path == "strategy.device" ? "strategy.devices" : path;
  }

  /// Records a value under any name of its key; a value from --set takes precedence.
  void give(const std::string& path, const JobEntry& entry) {
    const JobNode*& given = given_[path];
    if (given != nullptr && given->overridden == entry.value.overridden) {
      throw user_error("{}: {} is given already, at {} (device is a short name for strategy.devices)",
                       entry.where, path, given->where);
    }
    if (given == nullptr || entry.value.overridden) given = &entry.value;
  }

  static bool exists(const std::string& path) {
    return std::any_of(job_keys().begin(), job_keys().end(),
                       [&](const JobKey& key) { return key.path == path; });
  }

  static bool is_section(const std::string& path) {
    return std::any_of(job_keys().begin(), job_keys().end(),
                       [&](const JobKey& key) { return key.path.starts_with(path + "."); });
  }

  static Error unknown_key(const JobEntry& entry, const std::string& prefix) {
    std::vector<std::string> siblings =
        prefix.empty() ? std::vector<std::string>{"model"} : std::vector<std::string>{};
    std::map<std::string, std::string> by_last;
    for (const JobKey& key : job_keys()) {
      by_last.emplace(key.path.substr(key.path.rfind('.') + 1), key.path);
      if (!key.path.starts_with(prefix)) continue;
      const std::string rest = key.path.substr(prefix.size());
      siblings.push_back(rest.substr(0, rest.find('.')));
    }
    std::string near = nearest(entry.key, siblings);
    if (!near.empty()) near = prefix + near;
    if (const auto elsewhere = by_last.find(entry.key); elsewhere != by_last.end()) near = elsewhere->second;
    if (near.empty()) {
      std::vector<std::string> names;
      for (const auto& [name, path] : by_last) names.push_back(name);
      const std::string name = nearest(entry.key, names);
      if (!name.empty()) near = by_last.at(name);
    }
    return user_error(
        "{}: unknown key '{}{}'{}", entry.where, prefix, entry.key,
        near.empty() ? "; docs/job.md lists all keys" : fmt::format("; did you mean '{}'?", near));
  }

  void read_key(const JobKey& key, Job& job) const {
    const auto found = given_.find(key.path);
    if (found == given_.end()) {
      if (key.required) throw user_error("{}: the job needs '{}': {}", source_, key.path, key.kind);
      return;
    }
    const JobNode& node = *found->second;
    if (node.kind == JobNode::Kind::null) {
      throw user_error("{}: {} has no value; it must be {}", node.where, key.path, key.kind);
    }
    if (applies(key, job)) {
      key.read(job, node);
      return;
    }
    const auto decider = given_.find(key.when.key);
    const bool made_so = decider != given_.end() && decider->second->overridden && !node.overridden;
    if (made_so) return;
    // Several choices may have keys of the same name.
    std::vector<std::string> right;
    for (const JobKey& other : job_keys()) {
      if (other.path != key.path) continue;
      if (applies(other, job)) return;
      right.insert(right.end(), other.when.values.begin(), other.when.values.end());
    }
    throw user_error("{}: {} is for {} {}; in this job it is {}", node.where, key.path, key.when.key,
                     one_of(right), job_key_of(key.when.key).write(job));
  }

  const JobNode& root_;
  std::string source_;
  int64_t processes_;
  std::map<std::string, const JobNode*> given_;
};

/// The lines that open the sections of a key that the previous key was not in: "training:", "
/// early_stopping:".
std::string open_sections(const std::string& path, const std::string& before) {
  std::string lines;
  size_t depth = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1), ++depth) {
    const std::string section = path.substr(0, dot + 1);
    if (before.starts_with(section)) continue;
    const size_t name =
        section.rfind('.', dot - 1) == std::string::npos ? 0 : section.rfind('.', dot - 1) + 1;
    lines += std::string(2 * depth, ' ') + path.substr(name, dot - name) + ":\n";
  }
  return lines;
}

/// Takes `data.rules` out of the job of a run: for some time it was a key.
std::optional<int64_t> take_former_rules(JobNode& root) {
  JobNode* data = root.find("data");
  JobNode* node = data == nullptr ? nullptr : data->find("rules");
  if (node == nullptr) return std::nullopt;
  int64_t rules = 0;
  read_value(*node, "data.rules", {.least = kFirstRules, .most = kNewestRules}, rules);
  std::erase_if(data->entries, [](const JobEntry& entry) { return entry.key == "rules"; });
  return rules;
}

bool is_of_run(const std::filesystem::path& job) {
  const std::filesystem::path folder = job.parent_path();
  return job.filename() == "job.yaml" && std::filesystem::exists(folder / "samples.json") &&
         (std::filesystem::exists(folder / "state.json") ||
          std::filesystem::is_directory(folder / "checkpoints"));
}

/// The rules of the run or checkpoint whose job this is; the newest if it is of none.
int64_t rules_of(JobNode& root, const std::filesystem::path& job) {
  if (!is_of_run(job)) return kNewestRules;
  const std::filesystem::path samples = job.parent_path() / "samples.json";
  if (const auto former = take_former_rules(root)) return *former;
  return sample_rules_from_json(read_checkpoint_text(samples), samples.string());
}

Job read_node(JobNode& root, const std::string& source, const std::vector<std::string>& overrides,
              int64_t processes) {
  for (const std::string& assignment : overrides) apply_override(root, assignment);
  return Reader(root, source, processes).read();
}

/// The keys of a job for samples that were given in its place; empty: `path` is none, as its name tells.
std::string data_in(const std::filesystem::path& path) {
  const std::string kind = path.extension().string();
  const std::string file = fmt::format("\"{}\"", path.string());
  if (std::filesystem::is_directory(path)) return "source: images, path: " + file + ", shape: [3, 64, 64]";
  if (kind == ".csv" || kind == ".tsv")
    return fmt::format("source: csv, path: {}, {}classes: 2", file, kind == ".tsv" ? "separator: tab, " : "");
  if (kind == ".safetensors") return "source: safetensors, path: " + file + ", classes: 2";
  return kind == ".npy" ? "source: npy, path: " + file + ", label_path: labels.npy, classes: 2" : "";
}

void require_no_data(const std::filesystem::path& path) {
  const std::string data = data_in(path);
  if (data.empty() || !std::filesystem::exists(path)) return;
  throw user_error(
      "{} is no job; if it has samples, write a file job.yaml with these lines, and run telar train job.yaml (classes: 0 is regression; docs/job.md):\nmodel: mlp\ndata: {{{}}}",
      path.string(), data);
}

}  // namespace

Job parse_job(const std::string& text, const std::string& source, const std::vector<std::string>& overrides) {
  JobNode root = parse_job_node(text, source);
  return read_node(root, source, overrides, 1);
}

Job read_job(const std::filesystem::path& path, const std::vector<std::string>& overrides,
             int64_t processes) {
  const std::string source = path == "-" ? "stdin" : path.string();
  require_no_data(path);
  JobNode root = parse_job_node(read_text_file(path, "the job"), source);
  const int64_t rules = rules_of(root, path);
  Job job = read_node(root, source, overrides, processes);
  job.data.rules = rules;
  if (is_of_run(path)) {
    for (const auto& [option, name] : source_type(job.data.source).kept) {
      if (job.data.options.text(option).empty()) continue;
      const std::filesystem::path copy = path.parent_path() / name;
      if (!std::filesystem::exists(copy))
        throw user_error("{}: data.{} is given, but the run has no {}", source, option, name);
      job.data.options.set(option, copy.string());
    }
  }
  if (job.name.empty()) job.name = std::filesystem::is_regular_file(path) ? run_name_of(path) : "job";
  return job;
}

Job changed_job(const Job& job, const std::string& source, const std::vector<std::string>& overrides) {
  Job changed = parse_job(job_text(job), source, overrides);
  changed.data.rules = job.data.rules;
  return changed;
}

std::string job_text(const Job& job) {
  std::string text;
  std::string before;
  for (const JobKey& key : job_keys()) {
    if (before == "name") text += model_job_text(job.model);
    if (applies(key, job)) {
      const size_t depth = static_cast<size_t>(std::count(key.path.begin(), key.path.end(), '.'));
      text += open_sections(key.path, before);
      text += fmt::format("{}{}: {}\n", std::string(2 * depth, ' '), key.path.substr(key.path.rfind('.') + 1),
                          key.write(job));
    }
    before = applies(key, job) ? key.path : before;
  }
  return text;
}

}  // namespace telar
