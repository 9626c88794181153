#include "telar/device/cuda/kernels/common/reorder.h"

#include "telar/device/cuda/check.h"
#include "telar/device/cuda/loops/copies.h"
#include "telar/device/cuda/loops/values.h"

namespace telar::cuda {

Enqueue reorder(const Gpu& gpu, const TensorType& type, Layout to) {
  const Transposition stack = transposition_to(to, type.shape);
  return [stack, dtype = type.dtype, stream = gpu.stream()](const Pointers& p) {
    check(transpose_stack(p[0], p[1], dtype, stack.count, stack.rows, stack.columns, stream),
          "converting a value to another layout");
  };
}

Enqueue conversion(const Gpu& gpu, const TensorType& from, DType to) {
  return [count = from.shape.elements(), type = from.dtype, to, stream = gpu.stream()](const Pointers& p) {
    check(convert_values(p[0], type, p[1], to, count, stream), "converting a value to another type");
  };
}

Enqueue filling(const Gpu& gpu, const TensorType& type, float value) {
  return [count = type.shape.elements(), value, stream = gpu.stream()](const Pointers& p) {
    check(fill(p.get<float>(0), count, value, stream), "writing a constant");
  };
}

}  // namespace telar::cuda
