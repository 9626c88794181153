#include "telar/device/cuda/layouts.h"
#include "telar/core/bf16.h"

#include <cstring>

#include "telar/core/error.h"

namespace telar::cuda {

size_t bytes_of(const TensorType& type) {
  if (type.dtype == DType::opaque) throw run_error("{} has no defined size on a GPU", type.str());
  return static_cast<size_t>(type.shape.elements()) * size_of(type.dtype);
}

std::string name_of(Layout layout) { return layout == Layout::plain ? "plain" : "channels last"; }

Layout layout_named(const std::string& name) {
  for (const Layout layout : {Layout::plain, Layout::channels_last})
    if (name == name_of(layout)) return layout;
  throw run_error("GPUs have no layout '{}'", name);
}

Transposition transposition_to(Layout to, const Shape& shape) {
  if (shape.rank() != 4)
    throw run_error("only [N, C, H, W] can be stored with channels last, not {}", shape.str());
  const int64_t pixels = shape[2] * shape[3];
  if (to == Layout::channels_last) return {shape[0], shape[1], pixels};
  return {shape[0], pixels, shape[1]};
}

void transpose(std::span<const std::byte> from, std::span<std::byte> into, const Shape& shape, Layout to,
               size_t size) {
  const Transposition stack = transposition_to(to, shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const auto source = static_cast<size_t>(transposed_source(i, stack.rows, stack.columns));
    std::memcpy(into.data() + static_cast<size_t>(i) * size, from.data() + source * size, size);
  }
}

std::vector<float> canonical_values(std::span<const std::byte> memory, const TensorType& type,
                                    Layout layout) {
  if (type.dtype != DType::f32 && type.dtype != DType::bf16)
    throw run_error("the values of {} are neither f32 nor bf16", type.str());
  if (memory.size() < bytes_of(type))
    throw run_error("{} bytes are too few for values of {}", memory.size(), type.str());
  std::vector<std::byte> plain;
  if (layout != Layout::plain) {
    plain.resize(bytes_of(type));
    transpose(memory, plain, type.shape, Layout::plain, size_of(type.dtype));
    memory = plain;
  }
  std::vector<float> values(static_cast<size_t>(type.shape.elements()));
  if (type.dtype == DType::f32) {
    std::memcpy(values.data(), memory.data(), values.size() * sizeof(float));
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, memory.data() + i * sizeof(bits), sizeof(bits));
    values[i] = from_bf16(bits);
  }
  return values;
}

}  // namespace telar::cuda
