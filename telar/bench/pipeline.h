#pragma once

#include <string>

#include "telar/bench/timing.h"
#include "telar/runtime/bubble.h"

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

/// Training steps of a pipeline, beside those of one device with one stage's threads. Of each round a median.
struct PipelineFigures {
  Times single;
  Times micro_batch;  ///< of the single device, a step over as many samples as one micro-batch
  Times pipeline;
  Bubble bubble;
  double single_processor_ms = 0;  ///< of a step, over all threads, with what they spin away
  double pipeline_processor_ms = 0;
  double batch_operations_ms = 0;  ///< the gradient's operations alone on one device: over the whole batch
  double micro_batch_operations_ms = 0;  ///< the same over all micro-batches, one after the other
  std::string cuts;                      ///< the first operation of each stage but the first
};

/// Throws Error (user) for options out of range, and as balanced_pipeline does.
PipelineFigures measure_pipeline(const PipelineOptions& options);

}  // namespace telar::bench
