#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Moves a ReLU into the operation that produces its input, if no other node reads that input: linear,
/// conv2d, add and batch norm then have the attribute activation = "relu". For batch norm in training, the
/// ReLU's backward also moves into batch norm's backward. Apply to a complete gradient or evaluation graph.
Graph fuse_activations(const Graph& graph);

}  // namespace telar
