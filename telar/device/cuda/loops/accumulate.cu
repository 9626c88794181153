#include "telar/device/cuda/loops/accumulate.h"

#include "telar/device/cuda/loops/pack.h"
#include "telar/device/cuda/loops/vectors.h"

namespace telar::cuda {

namespace {

template <bool kAdding>
struct Accumulate {
  float* to;
  const float* from;
  float factor;

  template <int W>
  TELAR_GPU void at(int64_t i) const {
    Values<W> sums = load<W>(from + i);
    Values<W> before{};
    if (kAdding) before = load<W>(to + i);
    for (int lane = 0; lane < W; ++lane) sums.of[lane] = before.of[lane] + factor * sums.of[lane];
    store(to + i, sums);
  }
};

}  // namespace

cudaError_t accumulate_scaled(float* to, const float* from, int64_t count, float factor, bool adding,
                              cudaStream_t stream) {
  constexpr int kWidth = kWide<float>;
  const bool packed = lies_for_packs(to) && lies_for_packs(from);
  if (!adding) return for_each_wide<kWidth>(count, packed, stream, Accumulate<false>{to, from, factor});
  return for_each_wide<kWidth>(count, packed, stream, Accumulate<true>{to, from, factor});
}

}  // namespace telar::cuda
