#pragma once

#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// What the strategies with pipelines have in common.

/// Pipelines that are data parallel: worker d·stages + s is stage s of pipeline d.
struct StageGrid {
  int64_t data = 1;
  int64_t stages = 1;
};

/// The option `micro_batches`, and its value: 0 stands for four for each stage.
Option micro_batches_option();
int64_t micro_batches_of(const Attributes& options, int64_t stages);

/// The program of one pipeline in one process. Its stages share all parameters, and each updates an equal
/// part of them.
Program pipeline_program(const TrainingStep& step, const Cluster& cluster, int64_t micro_batches,
                         const std::vector<OperationCost>& costs);

/// The program of pipelines whose stages keep what they train, and so may be in several processes. Each stage
/// updates its layers, and computes them in evaluation and prediction; values pass to the next process in
/// messages. The stages with the same layers are the group "data", those of one pipeline the group "stages".
/// Throws Error (user) when the cluster does not have the grid's number of workers, when its processes cut
/// through pipelines unequally, or when the model has too few layers.
Program stage_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                      const StageGrid& grid, int64_t micro_batches, size_t bucket_bytes,
                      const std::vector<OperationCost>& costs);

}  // namespace telar
