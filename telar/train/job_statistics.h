#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "telar/graph/program.h"
#include "telar/train/job.h"

namespace telar {

/// Of how many samples the batch normalisation of a job takes its statistics, for `telar train --check`.
/// Empty if its model has none of one value for each sample and channel (LeastSamples). `program`: the job's.
/// `samples`: for training, if they are known. Throws Error (user) if a batch of an
/// epoch would have a statistic of a single sample.
std::string job_statistics(const Job& job, const Program& program, std::optional<int64_t> samples);

}  // namespace telar
