#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Rewrites a forward graph to compute in bf16. Operations that can (Op::bf16) read activations and weights
/// converted to bf16. Biases, scales, shifts and statistics (rank 1), and all other operations, stay f32.
/// Parameters stay f32: they are the master weights. Outputs stay f32. Apply before `differentiate`.
Graph mixed_precision(const Graph& forward);

}  // namespace telar
