#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// y = a + b, element by element. Shapes are equal, or each axis (aligned at the last) is equal or 1 (NumPy's
/// broadcasting). dtypes are equal: f32 or bf16. Only fusion sets the attribute "activation" = "relu".
ValueId add(GraphBuilder& builder, ValueId a, ValueId b);

/// y = a · b, element by element; shapes and dtypes as `add`.
ValueId mul(GraphBuilder& builder, ValueId a, ValueId b);

/// y = factor · x.
ValueId scale(GraphBuilder& builder, ValueId x, double factor);

/// The sum of x over the axes along which `reference` was broadcast; the result has the shape of `reference`.
ValueId sum_to(GraphBuilder& builder, ValueId x, ValueId reference);

}  // namespace telar
