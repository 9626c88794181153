#pragma once

#include <cstddef>

#include "telar/graph/graph.h"

namespace telar {

/// Index of the first node of a gradient graph's backward part. It follows the graph's `pause`, also where
/// another graph has the gradients of the weights (a pipeline), or, in a graph without one, the last node
/// that adds to a metric: the loss and the metrics are the last values that forward computes. 0 for a graph
/// of weight gradients alone, which has neither; the number of nodes for a graph without gradients.
size_t backward_begin(const Graph& graph);

}  // namespace telar
