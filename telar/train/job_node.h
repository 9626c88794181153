#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

struct JobEntry;

/// A YAML document as a tree. Each node records its position, for messages: "job.yaml:12", or "--set
/// training.batch=0".
struct JobNode {
  enum class Kind : uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;     ///< scalars
  bool quoted = false;  ///< scalars: written in quotes, so a text and not a number
  std::vector<JobNode> items;
  std::vector<JobEntry> entries;
  std::string where;
  bool overridden = false;  ///< set by --set

  /// The value for a key of a map; null if there is none.
  const JobNode* find(std::string_view key) const;
  JobNode* find(std::string_view key);
  /// A description of this node for messages: "the text 'abc'", "a list" ….
  std::string described() const;
};

struct JobEntry {
  std::string key;
  std::string where;
  JobNode value;
};

/// Parses a YAML document. Throws Error (user) with `source` and line: a syntax error, a duplicate key, more
/// than one document, or a document that is too large or too deep for a job.
JobNode parse_job_node(const std::string& text, const std::string& source);

/// Sets the value at "a.b.c" (list items by number: "model.layers.0.channels") to the YAML text after the
/// "=". Creates missing maps. Throws Error (user) that quotes the override.
void apply_override(JobNode& root, const std::string& assignment);

}  // namespace telar
