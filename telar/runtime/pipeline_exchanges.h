#pragma once

#include <memory>
#include <vector>

#include "telar/graph/program.h"
#include "telar/runtime/batch_parts.h"
#include "telar/runtime/stage_exchange.h"

namespace telar {

/// What the stages of one pipeline in this process share, for each of their graphs. Evaluation and prediction
/// pass through stages that keep their layers; otherwise each stage computes them with the whole model.
struct PipelineExchange {
  /// `parameters`: their number. `inputs`: of each sample.
  PipelineExchange(const StagesHere& here, size_t parameters, const SampleInputs& inputs)
      : gradient(here, parameters, inputs),
        evaluation(here, parameters, inputs),
        prediction(here, parameters, inputs) {}

  StageExchange gradient;
  StageExchange evaluation;
  StageExchange prediction;
};

/// The pipelines of this process.
class PipelineExchanges {
 public:
  /// None if the workers of the program are not stages.
  PipelineExchanges(const Program& program, int64_t process, const SampleInputs& inputs);

  /// Null if the worker is not a stage.
  PipelineExchange* of(size_t worker);
  /// The number of pipelines, and that of a worker among them.
  size_t count() const { return pipelines_.size(); }
  size_t index(size_t worker) const { return pipeline_of_worker_[worker]; }
  /// The number of stages of a pipeline in all processes; 0 if there is none.
  size_t stages() const { return pipelines_.empty() ? 0 : pipelines_[0]->gradient.here.count; }

  void stop();
  void reset();

 private:
  std::vector<std::unique_ptr<PipelineExchange>> pipelines_;
  std::vector<size_t> pipeline_of_worker_;
};

}  // namespace telar
