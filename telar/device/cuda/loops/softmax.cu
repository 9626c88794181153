#include "telar/device/cuda/loops/softmax.h"

#include "telar/device/cuda/loops/exponentials.h"
#include "telar/device/cuda/loops/rows.h"

namespace telar::cuda {

namespace {

/// The offset of element i of a line.
struct Places {
  int64_t length;
  int64_t stride;
  TELAR_GPU int64_t operator()(int64_t line, int64_t i) const {
    if (stride == 1) return line * length + i;
    const int64_t block = line / stride;
    return block * length * stride + (line - block * stride) + i * stride;
  }
};

template <typename T>
cudaError_t softmax_typed(const void* x, void* y, const Lines& lines, cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  const Places at{lines.length, lines.stride};
  return map_rows(
      lines.count, lines.length, lines.stride > 1, stream, kNoExponentials,
      [=] TELAR_GPU(int64_t line, int64_t i) {
        return Exponentials{to_float(from[at(line, i)]), 1};
      },
      CombineExponentials(),
      [=] TELAR_GPU(int64_t line, int64_t i, const Exponentials& e) {
        const int64_t place = at(line, i);
        // An infinite largest makes the whole line NaN, as ∞ - ∞ is.
        store(to[place], expf(to_float(from[place]) - e.largest) / (e.sum + (e.largest - e.largest)));
      });
}

template <typename T>
cudaError_t softmax_backward_typed(const void* dy, const void* y, void* dx, const Lines& lines,
                                   cudaStream_t stream) {
  const auto* gradient = static_cast<const T*>(dy);
  const auto* known = static_cast<const T*>(y);
  auto* to = static_cast<T*>(dx);
  const Places at{lines.length, lines.stride};
  return map_rows(
      lines.count, lines.length, lines.stride > 1, stream, 0.0F,
      [=] TELAR_GPU(int64_t line, int64_t i) {
        const int64_t place = at(line, i);
        return to_float(gradient[place]) * to_float(known[place]);
      },
      Sum(),
      [=] TELAR_GPU(int64_t line, int64_t i, float sum) {
        const int64_t place = at(line, i);
        store(to[place], to_float(known[place]) * (to_float(gradient[place]) - sum));
      });
}

}  // namespace

cudaError_t softmax(const void* x, void* y, DType dtype, const Lines& lines, cudaStream_t stream) {
  return with_type(dtype, [&](auto type) { return softmax_typed<decltype(type)>(x, y, lines, stream); });
}

cudaError_t softmax_backward(const void* dy, const void* y, void* dx, DType dtype, const Lines& lines,
                             cudaStream_t stream) {
  return with_type(
      dtype, [&](auto type) { return softmax_backward_typed<decltype(type)>(dy, y, dx, lines, stream); });
}

}  // namespace telar::cuda
