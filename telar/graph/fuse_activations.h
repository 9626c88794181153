#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Moves a ReLU into the operation that makes its input, when nobody else reads that input: linear, conv2d, add and batch
/// norm then carry the attribute activation = "relu". For batch norm in training the ReLU's backward moves into
/// batch norm's backward as well. Apply to a whole gradient or evaluation graph.
Graph fuse_activations(const Graph& graph);

}  // namespace telar
