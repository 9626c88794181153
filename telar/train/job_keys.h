#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "telar/train/job_value.h"

namespace telar {

/// When a key is valid: always, or only for some values of an earlier key.
struct KeyCondition {
  std::string key;                       ///< "data.source"; empty: always
  std::vector<std::string> values;       ///< "csv", "npy"
  std::vector<std::string> except = {};  ///< all others, if these are fewer: for the documentation
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

/// A key for an option. `access` returns the values that contain it:
/// [](auto& job) -> auto& { return job.strategy.options; }.
template <typename Access>
JobKey option_key(const std::string& section, const Option& option, Access access) {
  JobKey key;
  key.path = section + "." + option.name;
  key.kind = std::visit([&](const auto& type) { return value_kind(option.rule, type); }, option.fallback);
  key.doc = option.help;
  key.fallback = option.fallback_text;
  key.required = option.required;
  key.on_resume = option.on_resume;
  key.because = option.because;
  key.read = [access, option, path = key.path](Job& job, const JobNode& node) {
    access(job).set(option.name, read_option(node, path, option));
  };
  key.write = [access, option](const Job& job) {
    return option_text(access(job).has(option.name) ? access(job).at(option.name) : option.fallback,
                       option.rule);
  };
  return key;
}

inline JobKey when(std::string decider, std::vector<std::string> values, JobKey key) {
  key.when = {std::move(decider), std::move(values)};
  return key;
}

/// For all values of the earlier key but some.
inline JobKey unless(std::string decider, const std::vector<std::string>& all,
                     std::vector<std::string> except, JobKey key) {
  std::vector<std::string> values;
  std::ranges::copy_if(all, std::back_inserter(values), [&](const std::string& value) {
    return std::ranges::find(except, value) == except.end();
  });
  key.when = {std::move(decider), std::move(values), std::move(except)};
  return key;
}

/// The keys of what a job chooses by name (strategies, sources): `options` by name of the choice. Choices
/// that have the same option share one key.
template <typename Access>
std::vector<JobKey> keys_of_choices(const std::string& section, const std::string& chooser,
                                    const std::vector<std::pair<std::string, std::vector<Option>>>& choices,
                                    Access access) {
  std::vector<std::pair<Option, std::vector<std::string>>> shared;
  for (const auto& [choice, options] : choices) {
    for (const Option& option : options) {
      const auto known =
          std::ranges::find(shared, option, &std::pair<Option, std::vector<std::string>>::first);
      if (known == shared.end()) {
        shared.push_back({option, {choice}});
      } else {
        known->second.push_back(choice);
      }
    }
  }
  std::vector<JobKey> keys;
  for (const auto& [option, names] : shared)
    keys.push_back(when(chooser, names, option_key(section, option, access)));
  return keys;
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

std::vector<JobKey> data_keys();
std::vector<JobKey> training_keys();  ///< loss, optimizer, schedule, training
std::vector<JobKey> run_keys();       ///< strategy, output, run

/// All keys except those under "model". A key follows the keys that it depends on.
const std::vector<JobKey>& job_keys();

/// Throws std::out_of_range if there is no such key.
const JobKey& job_key_of(const std::string& path);

/// True if the key is valid in this job.
bool applies(const JobKey& key, const Job& job);

/// The table of keys of one section ("training") for docs/job.md: Markdown, one line per key.
std::string reference_table(const std::string& section);

}  // namespace telar
