#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// x in another element type: f32 to bf16 (round to nearest even) or bf16 to f32. The gradient is converted
/// back to x's type. An f32 gradient of an f32 x is not converted, so weight gradients keep f32 sums.
ValueId convert(GraphBuilder& builder, ValueId x, DType to);

}  // namespace telar
