#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/train/job.h"

namespace telar {

/// Reads a job from YAML, with overrides "training.epochs=3" applied before anything is looked at. Everything is checked;
/// defaults are filled in. Throws Error (user) with file and line (or the override), the key, what stands there and what
/// would be right: an unknown key (with the nearest), a wrong type, a value out of range, a key that means nothing in
/// this job, one that is missing. A key that an override makes meaningless (optimizer.beta1 after
/// --set optimizer.name=sgd) is passed over.
Job parse_job(const std::string& text, const std::string& source,
              const std::vector<std::string>& overrides = {});

/// The same from a file; the job's name is the file's unless it has one of its own.
Job read_job(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// The job in full, as YAML that reads back as the same job.
std::string job_text(const Job& job);

/// What makes two jobs give different results: "training.batch is 64 there and 32 here", one for each key that differs.
/// Keys that change only the speed or the output do not count, nor does training.epochs.
std::vector<std::string> job_differences(const Job& there, const Job& here);

}  // namespace telar
