#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// y = x · wᵀ + b. x: [N, I] f32 or bf16; w: [O, I] of x's dtype; b: [O] f32 or kNoValue; y: [N, O] of x's
/// dtype. Attribute "activation" = "relu" (set by fusion): y = max(0, …).
ValueId linear(GraphBuilder& builder, ValueId x, ValueId w, ValueId b);

}  // namespace telar
