#include <stdexcept>
#include <string>

#include "telar/core/error.h"
#include "telar/train/job_reader.h"

namespace {

/// Fails unless the job, once written, is read back as the same job.
void round_trip(const telar::Job& job) {
  const std::string text = telar::job_text(job);
  if (telar::job_text(telar::parse_job(text, "written.yaml")) != text)
    throw std::logic_error("another job: " + text);
}

}  // namespace

/// The first line may be an override, "--KEY=VALUE"; the rest is the job.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  if (text.starts_with("--") && text.find('\n') != std::string::npos) {
    const size_t end = text.find('\n');
    overrides.push_back(text.substr(2, end - 2));
    text.erase(0, end + 1);
  }
  telar::Job job;
  try {
    job = telar::parse_job(text, "job.yaml", overrides);
  } catch (const telar::Error&) {
    return 0;
  }
  round_trip(job);
  return 0;
}
