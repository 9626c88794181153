#pragma once

#include <string>

#include "telar/graph/graph.h"

namespace telar {

/// Throws Error (user) unless the graph treats samples as parallel training needs it, which is proved by its
/// structure: whatever it adds to a metric is a sum over the samples, and each item of its outputs is
/// computed of one sample. Then the parts of a batch can be computed apart, and their sums added. Batch norm
/// is exempt in a graph for training: its statistics couple the samples of a part.
///
/// The proof follows the axis of the samples through the operations of telar/io/model_operations.h: a mean or
/// maximum over the samples, a product of two sums, an axis of samples that is split or merged in another way
/// than whole samples, or what an operation keeps for its gradient, is refused where it reaches a metric or
/// an output. `training`: whether the graph is one for training. `source`: of the graph, for messages.
void require_sums_over_samples(const Graph& graph, bool training, const std::string& source);

}  // namespace telar
