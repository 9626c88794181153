#include "telar/train/job_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "telar/core/suggest.h"

namespace telar {

const std::vector<JobKey>& job_keys() {
  static const std::vector<JobKey> keys = [] {
    std::vector<JobKey> all = {without_result(job_key(
        "name", [](auto& job) -> auto& { return job.name; }, {},
        "The job's name. Empty: the name of the file."))};
    for (const auto& part : {data_keys(), training_keys(), run_keys()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return keys;
}

const JobKey& job_key_of(const std::string& path) {
  const auto& keys = job_keys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const JobKey& key) { return key.path == path; });
  if (found == keys.end()) throw std::out_of_range("no such key: " + path);
  return *found;
}

bool applies(const JobKey& key, const Job& job) {
  if (key.when.key.empty()) return true;
  const std::string value = job_key_of(key.when.key).write(job);
  return std::find(key.when.values.begin(), key.when.values.end(), value) != key.when.values.end();
}

namespace {

std::string default_of(const JobKey& key) {
  if (key.required) return "required";
  return key.fallback.empty() ? "`" + key.write(Job{}) + "`" : key.fallback;
}

}  // namespace

std::string reference_table(const std::string& section) {
  std::string table = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const JobKey& key : job_keys()) {
    const size_t dot = key.path.find('.');
    if ((dot == std::string::npos ? "" : key.path.substr(0, dot)) != section) continue;
    const bool most = !key.when.except.empty();
    const std::string only = key.when.key.empty()
                                 ? ""
                                 : fmt::format(" *{} {} {}.*", most ? "Not for" : "For", key.when.key,
                                               one_of(most ? key.when.except : key.when.values));
    table += fmt::format("| `{}` | {} | {} | {}{} |\n", key.path, key.kind, default_of(key), key.doc, only);
  }
  return table;
}

}  // namespace telar
