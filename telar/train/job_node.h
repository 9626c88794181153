#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

struct JobEntry;

/// A YAML document as a tree whose every node knows where it was written, for messages: "job.yaml:12", or
/// "--set training.batch=0".
struct JobNode {
  enum class Kind : uint8_t { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;     ///< scalars
  bool quoted = false;  ///< scalars: written in quotes, hence text and no number
  std::vector<JobNode> items;
  std::vector<JobEntry> entries;
  std::string where;
  bool overridden = false;  ///< given by --set

  /// The value of a key of a map; null when there is none.
  const JobNode* find(std::string_view key) const;
  JobNode* find(std::string_view key);
  /// "the text 'abc'", "a list" …: what stands here, for messages.
  std::string described() const;
};

struct JobEntry {
  std::string key;
  std::string where;
  JobNode value;
};

/// Parses a YAML document. Throws Error (user) naming `source` and the line: a syntax error, a key that stands twice, more than
/// one document, a document too large or too deep to be a job.
JobNode parse_job_node(const std::string& text, const std::string& source);

/// Sets the value at "a.b.c" (list items by number: "model.layers.0.channels") to the YAML text after the "=", making
/// maps on the way. Throws Error (user) naming the override.
void apply_override(JobNode& root, const std::string& assignment);

}  // namespace telar
