#pragma once

#include <string>

#include "telar/bench/result.h"

namespace telar::bench {

struct PipelineOptions {
  std::string workload = "resnet34_7x7";
  int64_t batch = 64;
  int64_t stages = 2;
  int64_t micro_batches = 8;
  int threads = 1;     ///< of each stage, and of the single device beside it
  int rounds = 5;      ///< of both in turn, so that a change of the machine's speed meets both
  double seconds = 2;  ///< of each in a round
};

/// Training steps of a pipeline beside those of one device with one stage's threads, and beside what they cannot go below; of each round a
/// median. The last row is the pipeline's, with its bubble. Throws Error (user) for options out of range, and as balanced_pipeline does.
Result measure_pipeline(const PipelineOptions& options);
/// The same rows and remarks, with the settings "step" and "by", added to another result.
void add_pipeline_rows(Result& result, const PipelineOptions& options);

}  // namespace telar::bench
