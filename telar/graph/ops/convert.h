#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// x in another element type: f32 to bf16 (nearest even) or bf16 to f32. Its gradient passes through, converted
/// to x's type; an f32 gradient of an f32 x passes unconverted, so weight gradients keep f32 sums.
ValueId convert(GraphBuilder& builder, ValueId x, DType to);

}  // namespace telar
