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

/// The same from a file, a pipe, or "-", the standard input. A job without a name is named after its file. That
/// of a run or checkpoint has the rules by which it reads samples, others the newest. `processes`: those that
/// train it together; several train a job that names no strategy by `mirrored`, one replica each.
Job read_job(const std::filesystem::path& path, const std::vector<std::string>& overrides = {},
             int64_t processes = 1);

/// A job with other values, read by the same rules. `source` is for messages. Throws Error (user).
Job changed_job(const Job& job, const std::string& source, const std::vector<std::string>& overrides);

/// The complete job as YAML; parse_job() reads it back as the same job.
std::string job_text(const Job& job);

}  // namespace telar
