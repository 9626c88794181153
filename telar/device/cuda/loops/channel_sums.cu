#include "telar/device/cuda/loops/channel_sums.h"

#include "telar/device/cuda/loops/reduce_channels.h"

namespace telar::cuda {

namespace {

template <int W>
struct SumEach {
  TELAR_GPU Values<W> operator()(Values<W> a, const Values<W>& b) const {
    for (int i = 0; i < W; ++i) a.of[i] += b.of[i];
    return a;
  }
};

template <typename T, int W>
cudaError_t sum_typed(const void* x, const Channels& of, float* pieces, float* sums, cudaStream_t stream) {
  const auto* values = static_cast<const T*>(x);
  return reduce_channels<W>(
      of, reinterpret_cast<Values<W>*>(pieces), stream, Values<W>{},
      [=] TELAR_GPU(int64_t i, int64_t) { return load<W>(values + i); }, SumEach<W>(),
      [=] TELAR_GPU(int64_t channel, const Values<W>& sum) {
        for (int i = 0; i < W; ++i) sums[channel + i] = sum.of[i];
      });
}

}  // namespace

int64_t channel_sum_pieces(int64_t images, int64_t channels, int64_t pixels) {
  return channel_pieces(images, channels, pixels) * channels;
}

cudaError_t sum_channels(const void* x, DType dtype, int64_t images, int64_t channels, int64_t pixels,
                         bool channels_last, float* pieces, float* sums, cudaStream_t stream) {
  const Channels of{images, channels, pixels, channels_last || pixels == 1};
  return with_type(dtype, [&](auto type) {
    using T = decltype(type);
    if (of.last && of.is_wide(kWide<T>)) return sum_typed<T, kWide<T>>(x, of, pieces, sums, stream);
    return sum_typed<T, 1>(x, of, pieces, sums, stream);
  });
}

}  // namespace telar::cuda
