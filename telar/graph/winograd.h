#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// The graph with permission to compute its convolutions by Winograd's algorithm (attribute `winograd` of
/// conv2d and, after `differentiate`, of its gradients). A device uses it where it is available and faster.
/// Apply before `differentiate`.
Graph allow_winograd(const Graph& forward);

}  // namespace telar
