#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// The forward graph computing in bf16: operations that can (Op::bf16) get their activations and weights converted to
/// bf16; biases, scales, shifts and statistics (rank 1), and all other operations, stay f32. Parameters stay f32: they
/// are the master weights. Outputs stay f32. Apply before `differentiate`.
Graph mixed_precision(const Graph& forward);

}  // namespace telar
