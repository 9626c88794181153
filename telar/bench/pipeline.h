#pragma once

#include <string>

#include "telar/bench/result.h"

namespace telar::bench {

struct PipelineOptions {
  std::string workload = "resnet34_7x7";
  int64_t batch = 64;
  int64_t stages = 2;
  int64_t micro_batches = 8;
  int threads = 1;     ///< for each stage, and for the single device
  int rounds = 5;      ///< single device and pipeline in turn, so that changes in machine speed affect both
  double seconds = 2;  ///< for each of them in a round
};

/// Compares the training steps of a pipeline with those of one device that has the threads of one stage, and
/// with their lower limit. Each round yields a median. The last row is the pipeline's and includes its
/// bubble. Throws Error (user) for options out of range, and as measured_program does.
Result measure_pipeline(const PipelineOptions& options);
/// Adds the same rows and remarks, with the settings "step" and "by", to another result.
void add_pipeline_rows(Result& result, const PipelineOptions& options);

}  // namespace telar::bench
