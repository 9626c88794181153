#include "telar/train/run_storage.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "telar/comm/store/random_id.h"
#include "telar/core/error.h"
#include "telar/io/atomic_file.h"
#include "telar/io/json_fields.h"
#include "telar/train/checkpoint.h"
#include "telar/train/file_digest.h"
#include "telar/train/job_changes.h"
#include "telar/train/job_reader.h"

namespace telar {

namespace fs = std::filesystem;

namespace {

const std::string kRunId = "run_id";
const std::string kMarker = ".json";
const std::string kCheckpoint = "checkpoint";
const std::string kRun = "run";
constexpr size_t kIdDigits = 16;

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// "step-00001234" of "step-00001234-ID"; empty if it is none.
std::string checkpoint_of(const std::string& name) {
  if (name.size() < kIdDigits + 1 || name[name.size() - kIdDigits - 1] != '-') return "";
  std::string checkpoint = name.substr(0, name.size() - kIdDigits - 1);
  return is_checkpoint_name(checkpoint) ? checkpoint : "";
}

/// What a resumed run continues with, besides its checkpoint: all but what belongs to processes of a host.
bool goes_along(const fs::path& entry) {
  static const std::set<std::string> others = {"checkpoints", "logs", "servers", "leader", "summary.json"};
  const std::string name = entry.filename().string();
  return !others.contains(name) && name.find(".tmp-") == std::string::npos;
}

/// The length and checksum of each file, by its path in the folder.
std::map<std::string, FileDigest> digests_of(const fs::path& folder) {
  std::map<std::string, FileDigest> digests;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_symlink()) throw user_error("{} is a link, not a file", entry.path().string());
    if (entry.is_regular_file())
      digests[entry.path().lexically_relative(folder).string()] = digest_of(entry.path());
  }
  return digests;
}

/// Throws Error (user) unless the files of a folder are those of a checkpoint that begin with "PART/".
void require_whole(const fs::path& folder, const std::string& part, const JsonFields& marker) {
  nlohmann::json found = nlohmann::json::object();
  for (const auto& [name, digest] : digests_of(folder))
    found[fmt::format("{}/{}", part, name)] = {digest.bytes, digest.crc32};
  for (const auto& [name, digest] : marker.value("files").items())
    if (name.starts_with(part + "/") && (!found.contains(name) || found.at(name) != digest))
      throw user_error("{}: the file {} is {}", marker.source(), name,
                       found.contains(name) ? "not the one that was stored" : "missing");
}

/// Another one each time.
std::string new_name(const fs::path& checkpoint) {
  return fmt::format("{}-{:016x}", checkpoint.filename().string(), random_id());
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// The step of the newest checkpoint of a folder that is not damaged; those before `step` are not read.
/// -1: there is none.
int64_t newest_readable(const fs::path& folder, int64_t step) {
  for (const fs::path& path : list_checkpoints(folder)) try {
      if (step_of_checkpoint(path) >= step) verify_checkpoint(path);
      return step_of_checkpoint(path);
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::run) throw;
    }
  return -1;
}

}  // namespace

class RunStorage::Beginning {
 public:
  explicit Beginning(std::atomic<bool>& begins) : begins_(begins) { begins_ = true; }
  ~Beginning() { begins_ = false; }
  Beginning(const Beginning&) = delete;
  Beginning& operator=(const Beginning&) = delete;

 private:
  std::atomic<bool>& begins_;
};

RunStorage::RunStorage(const OutputJob& output, std::function<void(const std::string&)> warn,
                       const std::function<bool()>& stop)
    : program_(
          output.storage, warn, {}, [this, stop] { return begins_ && stop && stop(); }, stop),
      keep_(output.keep),
      warn_(std::move(warn)),
      owner_(program_, warn_, {}) {}

std::vector<RunStorage::Stored> RunStorage::whole_of(const std::vector<std::string>& names) {
  std::vector<Stored> whole;
  for (const std::string& name : names) {
    if (!name.ends_with(kMarker)) continue;
    const std::string stored = name.substr(0, name.size() - kMarker.size());
    const std::string checkpoint = checkpoint_of(stored);
    if (!checkpoint.empty()) whole.push_back({stored, step_of_checkpoint(checkpoint)});
  }
  std::ranges::sort(whole, std::greater(), &Stored::step);
  return whole;
}

void RunStorage::look() {
  const Beginning beginning(begins_);
  const std::vector<std::string> names = program_.list();
  whole_ = whole_of(names);
  std::erase_if(whole_, [this](const Stored& one) { return unusable_.contains(one.name); });
  if (std::ranges::find(names, kRunId) != names.end()) run_id_ = first_line(program_.read(kRunId));
}

TrainingState RunStorage::newest_state() const {
  const std::string file = fmt::format("{}/{}/state.json", whole_.front().name, kCheckpoint);
  return training_state_from_json(program_.read(file), program_.place() + "/" + file);
}

/// A marker that is damaged is not one of a checkpoint.
std::optional<Job> RunStorage::newest_job() {
  for (; !whole_.empty(); whole_.erase(whole_.begin())) try {
      const std::string file = whole_.front().name + kMarker;
      const std::string source = program_.place() + "/" + file;
      return parse_job(JsonFields(program_.read(file), source).text("job"), source);
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::run) throw;
      skip_newest(error.what());
    }
  return std::nullopt;
}

void RunStorage::skip_newest(const std::string& why) {
  warn_(fmt::format("{}; the one before is used", why));
  skipped_.push_back(why);
  unusable_.insert(whole_.front().name);
}

void RunStorage::require_job(const Job& job, bool again) {
  const std::optional<Job> before = newest_job();
  if (!before) return;
  std::vector<std::string> texts;
  if (before->name != job.name) texts.push_back(fmt::format("name: {} → {}", before->name, job.name));
  for (const JobChange& change : job_changes(*before, job)) {
    if (change.rule == OnResume::refused && again)
      texts.push_back(fmt::format("{}, which cannot change, because {}", change.str(), change.because));
    else if (change.rule != OnResume::free && !again)
      texts.push_back(change.str());
  }
  if (!texts.empty())
    throw user_error("{} has a run of another job: {}; store this run elsewhere (--storage){}",
                     program_.place(), fmt::join(texts, "; "),
                     again ? "" : ", or continue that one with this job (--resume)");
}

/// Throws Error (user) unless the run of a folder can be stored here.
void RunStorage::require_own(const RunFolder& folder) const {
  const fs::path run = fs::weakly_canonical(folder.path());
  const fs::path place = fs::weakly_canonical(program_.folder());
  if (!program_.folder().empty() && (is_within(place, run) || is_within(run, place)))
    throw user_error("{} and {}: one is within the other; store the run elsewhere (--storage)",
                     program_.place(), folder.path().string());
  const fs::path file = folder.path() / kRunId;
  const bool has_begun = fs::exists(file) || !list_checkpoints(folder.checkpoints()).empty();
  if (!run_id_.empty() && has_begun && run_id_of(folder.path()) != run_id_)
    throw user_error("{} has another run than {}; store this run elsewhere (--storage)", program_.place(),
                     folder.path().string());
}

void RunStorage::identify(const RunFolder& folder) {
  require_own(folder);
  if (!run_id_.empty()) return write_file(folder.path() / kRunId, run_id_ + "\n", Links::refuse);
  const std::string own = run_id_of(folder.path());
  program_.write(kRunId, own + "\n");
  run_id_ = own;
}

void RunStorage::bring(const RunFolder& folder, const std::function<void(const std::string&)>& say) {
  const bool was_empty = whole_.empty();
  require_own(folder);
  {
    const Beginning beginning(begins_);
    owner_.claim(say);
  }
  look();  // the one before may have stored more in the meantime
  if (was_empty && !whole_.empty())
    throw run_error("{}: another process has stored a checkpoint in the meantime; start this one again",
                    program_.place());
  identify(folder);
  const Beginning beginning(begins_);
  for (; !whole_.empty(); whole_.erase(whole_.begin())) {
    const Stored newest = whole_.front();
    if (newest_readable(folder.checkpoints(), newest.step) >= newest.step) break;
    try {
      fetch(newest.name, folder, true);
      say(fmt::format("{} comes from {}, to {}", checkpoint_of(newest.name), program_.place(),
                      folder.path().string()));
      break;
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::run && has_parts(newest.name)) throw;
      skip_newest(fmt::format("{} is damaged: {}", newest.name, error.what()));
    }
  }
  if (!whole_.empty()) return bring_best(folder);
  if (!skipped_.empty() && list_checkpoints(folder.checkpoints()).empty())
    throw user_error(
        "none of the {} checkpoints in {} can be read: {}; restore what is missing there, or begin the run again elsewhere (--storage)",
        skipped_.size(), program_.place(), skipped_.front());
}

/// The best checkpoint that the folder's newest names, if it is only in the storage.
void RunStorage::bring_best(const RunFolder& folder) const {
  const std::optional<FoundCheckpoint> newest = newest_checkpoint(folder.checkpoints());
  if (!newest || !newest->state.best ||
      fs::exists(checkpoint_path(folder.checkpoints(), newest->state.best_step)))
    return;
  const auto stored = std::ranges::find(whole_, newest->state.best_step, &Stored::step);
  if (stored == whole_.end()) return;
  try {
    fetch(stored->name, folder, false);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::run && has_parts(stored->name)) throw;
    warn_(fmt::format("the best checkpoint, {}, is damaged: {}; the run goes on without it", stored->name,
                      error.what()));
  }
}

/// Without them, another attempt to copy it would fail as well.
bool RunStorage::has_parts(const std::string& name) const {
  const std::vector<std::string> parts = program_.list(name);
  return std::ranges::find(parts, kCheckpoint + "/") != parts.end() &&
         std::ranges::find(parts, kRun + "/") != parts.end();
}

/// Copies a checkpoint into the run's folder. Throws Error (user) if it is damaged.
void RunStorage::fetch(const std::string& name, const RunFolder& folder, bool newest) const {
  const JsonFields marker(program_.read(name + kMarker), program_.place() + "/" + name);
  AtomicFolder checkpoint(folder.checkpoints() / checkpoint_of(name), newest);
  program_.get(name + "/" + kCheckpoint, checkpoint.path());
  require_whole(checkpoint.path(), kCheckpoint, marker);
  const TrainingState state = verify_checkpoint(checkpoint.path());
  if (newest) {
    const AtomicFolder others(folder.path() / "stored");
    program_.get(name + "/" + kRun, others.path());
    require_whole(others.path(), kRun, marker);
    fs::copy(others.path(), folder.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    for (const fs::path& aside : set_aside_checkpoints_after(folder.checkpoints(), state.step - 1))
      warn_(fmt::format("a checkpoint of the folder is damaged; it is kept as {}", aside.string()));
  }
  checkpoint.commit();
}

void RunStorage::upload(const fs::path& checkpoint, const std::string& name) {
  const fs::path run = checkpoint.parent_path().parent_path();
  const AtomicFolder copy(run / "stored");  // its files do not change while they are stored
  const fs::path whole = copy.path() / "whole";
  const fs::path last = copy.path() / "last";
  fs::create_directories(whole / kRun);
  fs::create_directory(last);
  fs::create_directory(whole / kCheckpoint);
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    std::error_code no_links;
    fs::create_hard_link(entry.path(), whole / kCheckpoint / entry.path().filename(), no_links);
    if (no_links) fs::copy(entry.path(), whole / kCheckpoint / entry.path().filename());
  }
  for (const auto& entry : fs::directory_iterator(run))
    if (goes_along(entry.path()))
      fs::copy(entry.path(), whole / kRun / entry.path().filename(), fs::copy_options::recursive);
  nlohmann::json marker = {{"job", read_checkpoint_text(checkpoint / "job.yaml")}, {"files", {}}};
  for (const auto& [file, digest] : digests_of(whole)) marker["files"][file] = {digest.bytes, digest.crc32};
  program_.put(whole, name);
  owner_.check();
  write_file(last / (name + kMarker), marker.dump(2) + "\n");
  program_.put(last, "");
}

void RunStorage::remove_old(const std::vector<std::string>& names, const Stored& mine, int64_t best_step) {
  std::vector<Stored> whole = whole_of(names);
  if (whole.empty() || whole.front().step > mine.step) return;  // as in CheckpointObserver
  std::erase_if(whole,
                [&](const Stored& other) { return other.step == mine.step && other.name != mine.name; });
  std::set<std::string> kept;
  for (const Stored& stored : whole)
    if (std::cmp_less(kept.size(), keep_) || stored.step == best_step) kept.insert(stored.name);
  // Also what uploads that were broken off have left.
  for (const std::string end : {kMarker.c_str(), "/"})
    for (const std::string& name : names) {
      const std::string stored = name.substr(0, name.size() - std::min(name.size(), end.size()));
      if (!name.ends_with(end) || checkpoint_of(stored).empty() || kept.contains(stored)) continue;
      end == kMarker ? program_.remove_file(name) : program_.remove_folder(stored);
    }
}

/// The same as of RunStorage::store.
std::string RunStorage::attempt(const fs::path& checkpoint, const std::function<void()>& store) {
  try {
    store();
  } catch (const std::exception& error) {
    owner_.require();
    std::string why =
        fmt::format("{} is not stored ({} in a row): {}", checkpoint.string(), ++failures_, error.what());
    warn_(why + "; the next checkpoint is tried again");
    return why;
  }
  failures_ = 0;
  return "";
}

/// If an earlier attempt has failed.
std::string RunStorage::store_best(const fs::path& best) {
  if (!fs::exists(best) || std::ranges::find(whole_, step_of_checkpoint(best), &Stored::step) != whole_.end())
    return "";
  return attempt(best, [&] { upload(best, new_name(best)); });
}

std::string RunStorage::store(const fs::path& checkpoint, int64_t best_step) {
  const std::string name = new_name(checkpoint);
  std::vector<std::string> names;
  std::string why = attempt(checkpoint, [&] {
    upload(checkpoint, name);
    names = program_.list();
    whole_ = whole_of(names);
  });
  if (why.empty()) why = store_best(checkpoint_path(checkpoint.parent_path(), best_step));
  if (names.empty()) return why;
  try {
    owner_.check();
    remove_old(names, whole_of({name + kMarker}).front(), best_step);
  } catch (const Error& error) {
    warn_(fmt::format("older checkpoints remain: {}", error.what()));
  }
  return why;
}

std::string RunStorage::store_missing(const fs::path& checkpoint, int64_t best_step) {
  const bool there = std::ranges::find(whole_, step_of_checkpoint(checkpoint), &Stored::step) != whole_.end();
  return there ? store_best(checkpoint_path(checkpoint.parent_path(), best_step))
               : store(checkpoint, best_step);
}

}  // namespace telar
