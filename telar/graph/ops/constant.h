#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// An f32 tensor with all elements equal to `value`. The shape has no batch axis.
ValueId constant(GraphBuilder& builder, double value, const Shape& shape);

}  // namespace telar
