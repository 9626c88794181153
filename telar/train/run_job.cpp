#include "telar/train/run_job.h"

#include "telar/train/job_reader.h"

namespace telar {

Job read_run_job(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  Job job = read_job(path, overrides);
  if (leaves_rules_open(job.data)) job.data.options.set("rules", int64_t{1});
  return job;
}

bool leaves_rules_open(const DataJob& data) {
  return data.options.has("rules") && data.options.integer("rules") == 0;
}

}  // namespace telar
