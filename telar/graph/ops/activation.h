#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Element-wise activations. x: any shape, f32 or bf16; y: the same type.
ValueId relu(GraphBuilder& builder, ValueId x);     ///< max(0, x)
ValueId gelu(GraphBuilder& builder, ValueId x);     ///< x · Φ(x), the exact form with erf
ValueId sigmoid(GraphBuilder& builder, ValueId x);  ///< 1 / (1 + e^−x)
ValueId tanh(GraphBuilder& builder, ValueId x);

}  // namespace telar
