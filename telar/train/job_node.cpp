#include "telar/train/job_node.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

#include "telar/comm/printable.h"
#include "telar/core/error.h"
#include "telar/train/yaml_documents.h"

namespace telar {

namespace {

constexpr int kDeepest = 32;
constexpr int kMostNodes = 100'000;  ///< aliases can expand a small text into a huge tree

/// The sections that may be written as one word, and the key that the word is the value of.
constexpr std::pair<std::string_view, std::string_view> kShorthands[] = {
    {"model", "name"},     {"data", "source"},   {"loss", "name"},
    {"optimizer", "name"}, {"schedule", "name"}, {"strategy", "name"}};

std::string_view shorthand_of(std::string_view section) {
  for (const auto& [name, key] : kShorthands) {
    if (name == section) return key;
  }
  return {};
}

class Converter {
 public:
  explicit Converter(const std::string& source) : source_(source) {}

  JobNode convert(const YAML::Node& yaml, int depth) {
    JobNode node;
    node.where = where(yaml.Mark());
    if (depth > kDeepest)
      throw user_error("{}: the job is more than {} levels deep; that is not supported", node.where,
                       kDeepest);
    if (++nodes_ > kMostNodes)
      throw user_error("{}: the job has more than {} values; that is not supported", source_, kMostNodes);
    switch (yaml.Type()) {
      case YAML::NodeType::Scalar:
        node.kind = JobNode::Kind::scalar;
        node.text = yaml.Scalar();
        node.quoted = yaml.Tag() == "!";
        break;
      case YAML::NodeType::Sequence:
        node.kind = JobNode::Kind::list;
        for (const auto& item : yaml) node.items.push_back(convert(item, depth + 1));
        break;
      case YAML::NodeType::Map:
        node.kind = JobNode::Kind::map;
        for (const auto& entry : yaml) add_entry(node, entry.first, entry.second, depth);
        break;
      default: break;
    }
    return node;
  }

 private:
  std::string where(const YAML::Mark& mark) const {
    return mark.is_null() ? source_ : fmt::format("{}:{}", source_, mark.line + 1);
  }

  void add_entry(JobNode& map, const YAML::Node& key, const YAML::Node& value, int depth) {
    const std::string place = where(key.Mark());
    if (!key.IsScalar()) throw user_error("{}: a key must be a single word", place);
    const auto same = std::find_if(map.entries.begin(), map.entries.end(),
                                   [&](const JobEntry& entry) { return entry.key == key.Scalar(); });
    if (same != map.entries.end()) {
      throw user_error("{}: the key '{}' is given twice; the first is at {}", place, key.Scalar(),
                       same->where);
    }
    map.entries.push_back({key.Scalar(), place, convert(value, depth + 1)});
    JobNode& added = map.entries.back().value;
    if (added.kind == JobNode::Kind::null) added.where = place;  // YAML reports the line after it
  }

  std::string source_;
  int nodes_ = 0;
};

JobNode convert_text(const std::string& text, const std::string& source) {
  try {
    require_one_document(text, source);
    return Converter(source).convert(YAML::Load(text), 0);
  } catch (const YAML::Exception& error) {
    const std::string line = error.mark.is_null() ? "" : fmt::format(":{}", error.mark.line + 1);
    throw user_error("{}{}: not valid YAML: {}{}", source, line, error.msg, yaml_hint(text, error.mark.line));
  }
}

void expand_shorthands(JobNode& root) {
  for (JobEntry& entry : root.entries) {
    const std::string_view key = shorthand_of(entry.key);
    if (key.empty() || entry.value.kind != JobNode::Kind::scalar) continue;
    JobNode map;
    map.kind = JobNode::Kind::map;
    map.where = entry.where;
    map.entries.push_back({std::string(key), entry.where, std::move(entry.value)});
    entry.value = std::move(map);
  }
}

void mark_overridden(JobNode& node, const std::string& where) {
  node.where = where;
  node.overridden = true;
  for (JobNode& item : node.items) mark_overridden(item, where);
  for (JobEntry& entry : node.entries) {
    entry.where = where;
    mark_overridden(entry.value, where);
  }
}

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    parts.push_back(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  parts.push_back(path.substr(begin));
  return parts;
}

JobNode& item_of(JobNode& list, const std::string& number, const std::string& where) {
  size_t index = 0;
  const char* end = number.data() + number.size();
  const auto [stop, code] = std::from_chars(number.data(), end, index);
  if (code != std::errc() || stop != end || index >= list.items.size()) {
    throw user_error("{}: '{}' is not an item of the list at {}, which has {}; the first is 0", where, number,
                     list.where, list.items.size());
  }
  return list.items[index];
}

JobNode& child_of(JobNode& parent, const std::string& key, const std::string& where) {
  if (parent.kind == JobNode::Kind::list) return item_of(parent, key, where);
  if (parent.kind == JobNode::Kind::scalar) {
    throw user_error("{}: {} at {} has no key '{}'", where, parent.described(), parent.where, key);
  }
  parent.kind = JobNode::Kind::map;
  if (JobNode* known = parent.find(key)) return *known;
  parent.entries.push_back({key, where, {}});
  parent.entries.back().value.where = where;
  return parent.entries.back().value;
}

}  // namespace

const JobNode* JobNode::find(std::string_view key) const {
  for (const JobEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

JobNode* JobNode::find(std::string_view key) {
  for (JobEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::string JobNode::described() const {
  switch (kind) {
    case Kind::null: return "nothing";
    case Kind::list: return "a list";
    case Kind::map: return "a group of keys";
    default: {
      const std::string shown = printable(text, 60);  // all of a table would be printed otherwise
      return quoted ? fmt::format("the text '{}'", shown) : fmt::format("'{}'", shown);
    }
  }
}

JobNode parse_job_node(const std::string& text, const std::string& source) {
  JobNode root = convert_text(text, source);
  if (root.kind != JobNode::Kind::map) {
    throw user_error("{}: a job is a group of keys, including 'model:' and 'data:', but this is {}", source,
                     root.described());
  }
  expand_shorthands(root);
  return root;
}

void apply_override(JobNode& root, const std::string& assignment) {
  const std::string where = "--set " + assignment;
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw user_error("{}: an override must have the form KEY=VALUE, as in --set training.epochs=3", where);
  }
  JobNode value = convert_text(assignment.substr(equals + 1), where);
  mark_overridden(value, where);
  std::vector<std::string> path = split(assignment.substr(0, equals));
  if (path.size() == 1 && value.kind == JobNode::Kind::scalar && !shorthand_of(path[0]).empty()) {
    path.emplace_back(shorthand_of(path[0]));
  }
  JobNode* node = &root;
  for (const std::string& key : path) {
    if (key.empty()) throw user_error("{}: the key contains an empty name", where);
    node = &child_of(*node, key, where);
  }
  *node = std::move(value);
}

}  // namespace telar
