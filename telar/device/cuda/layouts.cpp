#include "telar/device/cuda/layouts.h"

#include <cstring>

#include "telar/core/error.h"

namespace telar::cuda {

size_t bytes_of(const TensorType& type) {
  if (type.dtype == DType::opaque) throw run_error("a GPU cannot tell the bytes of {}", type.str());
  return static_cast<size_t>(type.shape.elements()) * size_of(type.dtype);
}

Transposition transposition_to(Layout to, const Shape& shape) {
  if (shape.rank() != 4) throw run_error("channels come last in [N, C, H, W] alone, not in {}", shape.str());
  const int64_t pixels = shape[2] * shape[3];
  if (to == Layout::channels_last) return {shape[0], shape[1], pixels};
  return {shape[0], pixels, shape[1]};
}

std::vector<float> canonical_values(std::span<const std::byte> memory, const TensorType& type,
                                    Layout layout) {
  if (type.dtype != DType::f32 && type.dtype != DType::bf16)
    throw run_error("values of {} are not f32 or bf16", type.str());
  if (memory.size() < bytes_of(type))
    throw run_error("{} bytes are too few for values of {}", memory.size(), type.str());
  std::vector<float> values(static_cast<size_t>(type.shape.elements()));
  const Transposition back =
      layout == Layout::plain ? Transposition{} : transposition_to(Layout::plain, type.shape);
  const size_t size = size_of(type.dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto source =
        layout == Layout::plain
            ? i
            : static_cast<size_t>(transposed_source(static_cast<int64_t>(i), back.rows, back.columns));
    if (type.dtype == DType::f32) {
      std::memcpy(&values[i], memory.data() + source * size, size);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, memory.data() + source * size, size);
      values[i] = from_bf16(bits);
    }
  }
  return values;
}

}  // namespace telar::cuda
