#pragma once

#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/strategy/split_choice.h"
#include "telar/strategy/strategy.h"
#include "telar/strategy/worker_grid.h"

namespace telar {

/// What the strategies with pipelines have in common.

/// The option `micro_batches`, and its value for a step: 0 stands for four for each stage, or fewer for batch
/// normalisation of vectors (layer_with_vector_norm()). `shares`: into which the batch is divided before.
Option micro_batches_option();
int64_t micro_batches_of(const Attributes& options, int64_t stages, const TrainingStep& step,
                         int64_t shares = 1);

struct StageOptions {
  int64_t micro_batches = 1;
  size_t bucket_bytes = 0;            ///< of the gradients that workers sum
  std::vector<SplitRule> split = {};  ///< of a grid whose workers divide layers
};

/// The program of pipelines whose stages keep what they train. Each stage updates its layers, and computes
/// them in evaluation and prediction; values pass to the next process in messages. Workers with the same
/// layers (and pieces) are the group "data", the stages of one pipeline the group "stages".
///
/// With `model` above 1, there is a pipeline for each m. Layers chosen by choose_splits() are divided over
/// the group "model": the workers of one stage, each with samples of its own. Values pass between stages only
/// as samples of one pipeline. Layers that are not divided are data parallel over the group "peers", all
/// workers of a stage.
///
/// Throws Error (user) when check_workers() or choose_splits() does, or when the model has too few layers.
Program stage_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                      const WorkerGrid& grid, const StageOptions& options,
                      const std::vector<OperationCost>& costs);

}  // namespace telar
