#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// The graph with leave to compute its convolutions by Winograd's algorithm where a device has it and it pays (attribute
/// `winograd` of conv2d and, after `differentiate`, of its gradients). Apply before `differentiate`.
Graph allow_winograd(const Graph& forward);

}  // namespace telar
