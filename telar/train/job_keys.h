#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "telar/train/job_value.h"

namespace telar {

/// When a key is valid: always, or only for some values of an earlier key.
struct KeyCondition {
  std::string key;                  ///< "data.source"; empty: always
  std::vector<std::string> values;  ///< "csv", "npy"
};

/// One key of a job: its valid values, its meaning, and how it is read into a Job and written back. The
/// parser, the error messages and docs/job.md are all generated from it.
struct JobKey {
  std::string path;  ///< "training.batch"
  std::string kind;  ///< "an integer, at least 1"
  std::string doc;
  bool required = false;
  bool changes_result = true;  ///< false: a run may be resumed with a different value
  KeyCondition when;
  std::function<void(Job& job, const JobNode& node)> read;
  std::function<std::string(const Job& job)> write;  ///< YAML on one line
};

/// A key whose value `access` returns: [](auto& job) -> auto& { return job.training.batch; }.
template <typename Access>
JobKey job_key(std::string path, Access access, const ValueRule& rule, std::string doc) {
  using Target = std::remove_cvref_t<decltype(access(std::declval<Job&>()))>;
  JobKey key;
  key.path = std::move(path);
  key.kind = value_kind(rule, Target());
  key.doc = std::move(doc);
  key.read = [access, rule, name = key.path](Job& job, const JobNode& node) {
    read_value(node, name, rule, access(job));
  };
  key.write = [access](const Job& job) { return value_text(access(job)); };
  return key;
}

inline JobKey required(JobKey key) {
  key.required = true;
  return key;
}

inline JobKey without_result(JobKey key) {
  key.changes_result = false;
  return key;
}

inline JobKey when(std::string decider, std::vector<std::string> values, JobKey key) {
  key.when = {std::move(decider), std::move(values)};
  return key;
}

std::vector<JobKey> data_keys();
std::vector<JobKey> training_keys();  ///< loss, optimizer, schedule, training
std::vector<JobKey> run_keys();       ///< strategy, output

/// All keys except those under "model". A key follows the keys that it depends on.
const std::vector<JobKey>& job_keys();

/// Throws std::out_of_range if there is no such key.
const JobKey& job_key_of(const std::string& path);

/// True if the key is valid in this job.
bool applies(const JobKey& key, const Job& job);

/// The table of keys of one section ("training") for docs/job.md: Markdown, one line per key.
std::string reference_table(const std::string& section);

}  // namespace telar
