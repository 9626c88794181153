#include "telar/device/cuda/loops/channel_sums.h"

#include "telar/device/cuda/loops/reduce_channels.h"

namespace telar::cuda {

namespace {

template <int W>
struct Sums {
  Values<W> values;
  TELAR_GPU Sums<1> lane(int i) const { return {{values.of[i]}}; }
};

struct AddSums {
  template <int W>
  TELAR_GPU Sums<W> operator()(Sums<W> a, const Sums<W>& b) const {
    for (int i = 0; i < W; ++i) a.values.of[i] += b.values.of[i];
    return a;
  }
};

template <typename T>
struct TermsOfSums {
  const T* x;
  template <int W>
  TELAR_GPU Sums<W> of_channels(int64_t i, int64_t /*channel*/) const {
    return {load<W>(x + i)};
  }
  template <int W>
  TELAR_GPU Sums<1> of_pixels(int64_t i, int64_t /*channel*/) const {
    Sums<1> sum{};
    for (const float value : load<W>(x + i).of) sum.values.of[0] += value;
    return sum;
  }
};

struct StoreSum {
  float* sums;
  TELAR_GPU void operator()(int64_t channel, const Sums<1>& sum) const { sums[channel] = sum.values.of[0]; }
};

template <int W, typename T>
cudaError_t sum_typed(const T* x, const Channels& of, float* pieces, float* sums, cudaStream_t stream) {
  return reduce_channels<W, Sums>(of, reinterpret_cast<Sums<1>*>(pieces), stream, TermsOfSums<T>{x},
                                  AddSums(), StoreSum{sums});
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
    const auto* values = static_cast<const T*>(x);
    if (of.is_wide(kWide<T>)) return sum_typed<kWide<T>>(values, of, pieces, sums, stream);
    return sum_typed<1>(values, of, pieces, sums, stream);
  });
}

}  // namespace telar::cuda
