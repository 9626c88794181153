#pragma once

#include <map>
#include <string>
#include <vector>

#include "telar/graph/program.h"
#include "telar/strategy/stage_cuts.h"

namespace telar {

/// The weight gradients of a pipeline that are computed once for the whole batch.
///
/// A weight gradient computed per micro-batch is written, read and added to the sum of the earlier ones. That
/// takes four passes over the weights, and the kernel has few samples to divide among threads. Keeping the
/// operands of all micro-batches costs one pass over those instead. Nodes whose weights are heavier than that
/// are therefore computed at the end: for ResNet-34 on images of 32×32 and micro-batches of 8, all except the
/// first convolution. (Qi et al., "Zero bubble pipeline parallelism", 2023, split backward in this way into
/// the gradients of inputs and of weights; the work at the end also fills the time in which a stage has
/// nothing else to do.)
///
/// Returns true for each node of the gradient graph that is computed at the end; `micro`: the same graph for
/// a micro-batch.
std::vector<bool> left_for_the_end(const TrainingStep& step, const StageCuts& cuts, const Graph& micro);

/// The two graphs of each stage: one for a micro-batch, with a `pause` between forward and backward, and one
/// for the whole batch.
struct StageGraphs {
  Graph micro_batch;
  Graph weight_gradients;
};
std::vector<StageGraphs> make_stage_graphs(const TrainingStep& step, const std::vector<int>& stage_of_node,
                                           int stages, const std::vector<bool>& left, const Graph& micro);

/// The stage of every node of a forward graph in evaluation or prediction mode, whose stages keep different
/// parameters: a node belongs to the first stage that has its inputs and its parameters, or, if its result
/// cannot pass between stages, to the first one that reads it. −1 for a node that depends on no sample.
/// `stage_of_parameter`: gains the parameters that only this graph reads.
std::vector<int> forward_stages(const Graph& forward, std::map<std::string, int>& stage_of_parameter);
/// The part of such a graph that each stage computes. Throws Error (user) if a value passes between stages
/// whose outermost axis is not the batch.
std::vector<Graph> make_forward_graphs(const Graph& forward, const std::vector<int>& stage_of_node,
                                       int stages);

}  // namespace telar
