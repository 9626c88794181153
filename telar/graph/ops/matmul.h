#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// y = a · b for each matrix of a batch. a: […, M, K], or […, K, M] with `transpose_a`; b: […, K, N], or
/// […, N, K] with `transpose_b`; y: […, M, N]. Ranks are equal, 2 to 4, and so are the extents before the
/// last two. All three are f32 or all bf16.
ValueId matmul(GraphBuilder& builder, ValueId a, ValueId b, bool transpose_a = false,
               bool transpose_b = false);

}  // namespace telar
