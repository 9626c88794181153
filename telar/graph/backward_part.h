#pragma once

#include <cstddef>

#include "telar/graph/graph.h"

namespace telar {

/// Index of the first node of a gradient graph's backward part: after its `pause` where it has one, else after the last node that adds
/// to a metric, because the loss and the metrics are the last that forward makes. 0 for a graph of weight gradients alone, which has
/// neither; the number of nodes for a graph without gradients.
size_t backward_begin(const Graph& graph);

}  // namespace telar
