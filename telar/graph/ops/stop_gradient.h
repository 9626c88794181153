#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// x itself, of which the gradient does not know: PyTorch's detach(). Any shape; f32 or bf16.
ValueId stop_gradient(GraphBuilder& builder, ValueId x);

}  // namespace telar
