#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Rewrites a forward graph to compute in bf16. Operations that can (Op::bf16) read activations and weights
/// converted to bf16. Biases, scales, shifts and statistics (rank 1), and all other operations, stay f32.
/// What computes with whole numbers of which bf16 has not all (Op::whole_numbers) stays f32, too: positions,
/// labels and counts on their way to a comparison or to an index.
/// Parameters stay f32: they are the master weights. Outputs stay f32. Apply before `differentiate`.
Graph mixed_precision(const Graph& forward);

}  // namespace telar
