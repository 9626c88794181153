#pragma once

#include "telar/graph/program.h"
#include "telar/strategy/stage_cuts.h"

namespace telar {

/// The weight gradients of a pipeline that are computed once for the whole batch.
///
/// Computed for each micro-batch a weight gradient is written, read and added to the sum of those before: four passes over the
/// weights, for which the kernel has few samples to share them out. Leaving the operands of all micro-batches behind costs a pass
/// over those instead. So nodes are left for the end whose weights are heavier than that: of ResNet-34 on images of 32×32 and
/// micro-batches of 8, all but the first convolution. (The split of backward into the gradients of inputs and of weights is that of
/// Qi et al., "Zero bubble pipeline parallelism", 2023; what is left for the end also fills the time in which a stage
/// has nothing more to do.)
///
/// True for each node of the gradient graph that is left; `micro`: the same graph for a micro-batch.
std::vector<bool> left_for_the_end(const TrainingStep& step, const StageCuts& cuts, const Graph& micro);

/// The two graphs of each stage: over a micro-batch, with a `pause` between forward and backward, and over the whole batch.
struct StageGraphs {
  Graph micro_batch;
  Graph weight_gradients;
};
std::vector<StageGraphs> make_stage_graphs(const TrainingStep& step, const std::vector<int>& stage_of_node,
                                           int stages, const std::vector<bool>& left, const Graph& micro);

}  // namespace telar
