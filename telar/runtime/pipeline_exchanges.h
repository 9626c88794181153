#pragma once

#include <memory>
#include <vector>

#include "telar/graph/program.h"
#include "telar/runtime/batch_parts.h"
#include "telar/runtime/stage_exchange.h"
#include "telar/runtime/stage_updates.h"

namespace telar {

/// What the stages of one pipeline in this process share, for each kind of their graphs. One kind runs at a
/// time, so all values are in the same memory.
struct PipelineExchange {
  /// `inputs`: of each sample.
  PipelineExchange(const StagesHere& here, const SampleInputs& inputs)
      : gradient(here, inputs, values),
        evaluation(here, inputs, values),
        prediction(here, inputs, values),
        updates(here.end - here.begin) {}

  CommonMemory values;
  StageExchange gradient;
  StageExchange evaluation;
  StageExchange prediction;
  StageUpdates updates;
};

/// The pipelines of this process.
class PipelineExchanges {
 public:
  /// None if the workers of the program are not stages.
  PipelineExchanges(const Program& program, int64_t process, const SampleInputs& inputs);

  /// Null if the worker is not a stage.
  PipelineExchange* of(size_t worker);
  void stop();
  void reset();

 private:
  std::vector<std::unique_ptr<PipelineExchange>> pipelines_;
  std::vector<size_t> pipeline_of_worker_;
};

}  // namespace telar
