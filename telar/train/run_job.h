#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/train/job.h"

namespace telar {

/// Reads the job of a run or of a checkpoint, as read_job(). One that does not name the rules by which its
/// pictures are read is older than these rules: it has the first ones.
Job read_run_job(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

/// Whether a job leaves it open by which rules its pictures are read.
bool leaves_rules_open(const DataJob& data);

}  // namespace telar
