#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Axis i of the result is axis permutation[i] of x (NumPy's and PyTorch's permute). Any shape, f32, bf16 or
/// i32.
ValueId transpose(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& permutation);

}  // namespace telar
