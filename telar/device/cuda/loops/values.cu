#include "telar/device/cuda/loops/values.h"

#include "telar/device/cuda/loops/pack.h"
#include "telar/device/cuda/loops/vectors.h"
#include "telar/device/cuda/transposition.h"

namespace telar::cuda {

namespace {

template <typename In, typename Out>
struct Convert {
  const In* x;
  Out* y;
  template <int W>
  TELAR_GPU void at(int64_t i) const {
    store(y + i, load<W>(x + i));
  }
};

template <typename In, typename Out>
cudaError_t convert_typed(const void* x, void* y, int64_t count, cudaStream_t stream) {
  constexpr int kWidth = 4;
  const bool packed = lies_for_packs(x, kWidth * sizeof(In)) && lies_for_packs(y, kWidth * sizeof(Out));
  return for_each_wide<kWidth>(count, packed, stream,
                               Convert<In, Out>{static_cast<const In*>(x), static_cast<Out*>(y)});
}

template <typename T, typename Index>
cudaError_t transpose_counted(const void* x, void* y, int64_t elements, int64_t rows, int64_t columns,
                              cudaStream_t stream) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  const auto high = static_cast<Index>(rows);
  const auto wide = static_cast<Index>(columns);
  return for_each(elements, stream, [=] TELAR_GPU(int64_t i) {
    to[i] = from[transposed_source(static_cast<Index>(i), high, wide)];
  });
}

template <typename T>
cudaError_t transpose_typed(const void* x, void* y, int64_t elements, int64_t rows, int64_t columns,
                            cudaStream_t stream) {
  // GPUs divide 32-bit numbers several times as fast.
  if (elements <= INT32_MAX) return transpose_counted<T, uint32_t>(x, y, elements, rows, columns, stream);
  return transpose_counted<T, int64_t>(x, y, elements, rows, columns, stream);
}

template <typename T>
cudaError_t sum_typed(const void* x, int64_t count, float* pieces, void* y, cudaStream_t stream) {
  const auto* values = static_cast<const T*>(x);
  auto* sum = static_cast<T*>(y);
  const int64_t length = (count + kMostPieces - 1) / kMostPieces;
  const cudaError_t status = reduce(
      kMostPieces, length, stream, 0.0F,
      [=] TELAR_GPU(int64_t piece, int64_t i) {
        const int64_t at = piece * length + i;
        return at < count ? to_float(values[at]) : 0.0F;
      },
      Sum(), [=] TELAR_GPU(int64_t piece, float value) { pieces[piece] = value; });
  if (status != cudaSuccess) return status;
  return reduce(
      1, kMostPieces, stream, 0.0F, [=] TELAR_GPU(int64_t, int64_t i) { return pieces[i]; }, Sum(),
      [=] TELAR_GPU(int64_t, float value) { store(*sum, value); });
}

}  // namespace

cudaError_t convert_values(const void* x, DType from, void* y, DType to, int64_t count, cudaStream_t stream) {
  return with_type(from, [&](auto in) {
    return with_type(
        to, [&](auto out) { return convert_typed<decltype(in), decltype(out)>(x, y, count, stream); });
  });
}

cudaError_t transpose_stack(const void* x, void* y, DType dtype, int64_t count, int64_t rows, int64_t columns,
                            cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return transpose_typed<decltype(type)>(x, y, count * rows * columns, rows, columns, stream);
  });
}

cudaError_t sum_values(const void* x, DType dtype, int64_t count, float* pieces, void* y,
                       cudaStream_t stream) {
  return with_type(dtype, [&](auto type) { return sum_typed<decltype(type)>(x, count, pieces, y, stream); });
}

}  // namespace telar::cuda
