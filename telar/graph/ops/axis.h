#pragma once

#include <string_view>

#include "telar/core/shape.h"
#include "telar/graph/op.h"

namespace telar {

/// Index of the given axis of `x`; negative numbers count from the end, −1 is the last. Throws Error (user)
/// when there is no such axis.
size_t axis_of(std::string_view op, int64_t axis, const Shape& x);

/// Throws Error (user) unless x is f32 or bf16.
void check_floating(std::string_view op, const TensorType& x);

}  // namespace telar
