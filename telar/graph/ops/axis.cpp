#include "telar/graph/ops/axis.h"

#include "telar/core/error.h"

namespace telar {

size_t axis_of(std::string_view op, int64_t axis, const Shape& x) {
  const auto rank = static_cast<int64_t>(x.rank());
  if (axis < -rank || axis >= rank) {
    throw user_error("{}: there is no axis {} in {}; axes are 0 to {}, or {} to −1 from the last", op, axis,
                     x.str(), rank - 1, -rank);
  }
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

void check_floating(std::string_view op, const TensorType& x) {
  if (x.dtype != DType::f32 && x.dtype != DType::bf16) {
    throw user_error("{}: input is {}; it must be f32 or bf16", op, x.str());
  }
}

}  // namespace telar
