#pragma once

#include <cstdint>
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

/// Whether a run that is resumed may have another value of a key than before.
enum class OnResume : uint8_t {
  free,      ///< the value affects only speed or output
  recorded,  ///< the run continues with the new value, and its log says so
  refused
};

/// One key of a job: its valid values, its meaning, and how it is read into a Job and written back. The
/// parser, the error messages and docs/job.md are all generated from it.
struct JobKey {
  std::string path;  ///< "training.batch"
  std::string kind;  ///< "an integer, at least 1"
  std::string doc;
  std::string fallback;  ///< the default in words, if it depends on other keys
  bool required = false;
  OnResume on_resume = OnResume::recorded;
  std::string because;  ///< if a change is refused: the reason, as the end of a sentence
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

/// For a key whose default depends on other keys.
inline JobKey by_default(std::string fallback, JobKey key) {
  key.fallback = std::move(fallback);
  return key;
}

inline JobKey without_result(JobKey key) {
  key.on_resume = OnResume::free;
  return key;
}

/// A key that a resumed run may not change. `because` continues "…, because ".
inline JobKey fixed(std::string because, JobKey key) {
  key.on_resume = OnResume::refused;
  key.because = std::move(because);
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
