#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// An f32 tensor of one value. The shape holds no batch.
ValueId constant(GraphBuilder& builder, double value, const Shape& shape);

}  // namespace telar
