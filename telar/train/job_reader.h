#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/train/job.h"

namespace telar {

/// Reads a job from YAML, checks it and fills in defaults. Overrides such as "training.epochs=3" are applied
/// before any check. Throws Error (user) with file and line (or the override), the key, the value found and
/// the values allowed: an unknown key (with the nearest known one), a wrong type, a value out of range, a key
/// that is not valid in this job, or a missing key. A key that an override makes invalid (optimizer.beta1
/// after --set optimizer.name=sgd) is ignored.
Job parse_job(const std::string& text, const std::string& source,
              const std::vector<std::string>& overrides = {});

/// The same from a file. A job without a name is named after its file.
Job read_job(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// The complete job as YAML; parse_job() reads it back as the same job.
std::string job_text(const Job& job);

/// The keys that make the results of two jobs differ, one text each: "training.batch is 64 there and 32
/// here". Keys that affect only speed or output are left out, and so is training.epochs.
std::vector<std::string> job_differences(const Job& there, const Job& here);

}  // namespace telar
