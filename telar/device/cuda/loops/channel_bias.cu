#include "telar/device/cuda/loops/channel_bias.h"

#include "telar/device/cuda/loops/channels.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

namespace {

template <typename T, typename Bias, int W>
cudaError_t add_typed(void* y, const void* bias, bool relu, const Channels& of, cudaStream_t stream) {
  auto* values = static_cast<T*>(y);
  const auto* added = static_cast<const Bias*>(bias);
  const int64_t channels = of.channels;
  const int64_t pixels = of.pixels;
  const bool last = of.last;
  return for_each(of.length() * channels / W, stream, [=] TELAR_GPU(int64_t pack) {
    const int64_t first = pack * W;
    const int64_t channel = (last ? first : first / pixels) % channels;
    Values<W> sums = load<W>(values + first);
    for (int i = 0; i < W; ++i) {
      const float sum = sums.of[i] + to_float(added[last ? channel + i : channel]);
      sums.of[i] = relu && sum <= 0 ? 0.0F : sum;
    }
    store(values + first, sums);
  });
}

}  // namespace

cudaError_t add_channel_bias(void* y, DType dtype, const void* bias, DType bias_type, bool relu,
                             int64_t images, int64_t channels, int64_t pixels, bool channels_last,
                             cudaStream_t stream) {
  const Channels of{images, channels, pixels, channels_last || pixels == 1};
  return with_type(dtype, [&](auto type) {
    using T = decltype(type);
    return with_type(bias_type, [&](auto added) {
      using Bias = decltype(added);
      if (of.is_wide(kWide<T>)) return add_typed<T, Bias, kWide<T>>(y, bias, relu, of, stream);
      return add_typed<T, Bias, 1>(y, bias, relu, of, stream);
    });
  });
}

}  // namespace telar::cuda
