#include "telar/device/cuda/loops/dropout.h"

#include "telar/device/cuda/loops/launch.h"
#include "telar/device/cuda/loops/pack.h"
#include "telar/device/cuda/loops/walk.h"

namespace telar::cuda {

namespace {

constexpr int64_t kWords = 4;  // in a block of random numbers

/// Processes one block of random numbers for each index. `Index` counts the blocks.
template <typename T, typename Index>
struct Drop {
  DropoutConstants constants;
  const T* x;
  const int32_t* sample;
  const int32_t* random;
  T* y;
  int64_t per_sample;
  Index blocks;  // in a sample
  bool packed;

  TELAR_GPU void operator()(int64_t i) const {
    const DropoutRule rule(constants, random);
    const Index n = static_cast<Index>(i) / blocks;
    const int64_t block = static_cast<int64_t>(static_cast<Index>(i) - n * blocks);
    const auto words =
        rule.philox(rule.counter(static_cast<uint64_t>(block), sample + 2 * static_cast<int64_t>(n)));
    const int64_t at = static_cast<int64_t>(n) * per_sample + block * kWords;
    const int64_t left = per_sample - block * kWords;
    Pack<T, kWords> values;
    if (packed) {
      values = *reinterpret_cast<const Pack<T, kWords>*>(x + at);
    } else {
      for (int64_t lane = 0; lane < kWords; ++lane) values.values[lane] = x[lane < left ? at + lane : at];
    }
    for (int64_t lane = 0; lane < kWords; ++lane) {
      const bool kept = words[static_cast<size_t>(lane)] >= rule.threshold;
      store(values.values[lane], kept ? to_float(values.values[lane]) * rule.scale : 0.0F);
    }
    if (packed) {
      *reinterpret_cast<Pack<T, kWords>*>(y + at) = values;
    } else {
      for (int64_t lane = 0; lane < kWords; ++lane)
        if (lane < left) y[at + lane] = values.values[lane];
    }
  }
};

template <typename T, typename Index>
cudaError_t drop_counted(const DropoutConstants& constants, const void* x, const int32_t* sample,
                         const int32_t* random, void* y, int64_t samples, int64_t per_sample,
                         cudaStream_t stream) {
  constexpr size_t kBytes = sizeof(Pack<T, kWords>);
  const bool packed = per_sample % kWords == 0 && lies_for_packs(x, kBytes) && lies_for_packs(y, kBytes);
  const int64_t blocks = (per_sample + kWords - 1) / kWords;
  return for_each(samples * blocks, stream,
                  Drop<T, Index>{constants, static_cast<const T*>(x), sample, random, static_cast<T*>(y),
                                 per_sample, static_cast<Index>(blocks), packed});
}

}  // namespace

cudaError_t drop(const DropoutConstants& constants, const void* x, const int32_t* sample,
                 const int32_t* random, void* y, DType dtype, int64_t samples, int64_t per_sample,
                 cudaStream_t stream) {
  return with_type(dtype, [&](auto type) {
    return with_index(samples * per_sample, [&](auto index) {
      return drop_counted<decltype(type), decltype(index)>(constants, x, sample, random, y, samples,
                                                           per_sample, stream);
    });
  });
}

}  // namespace telar::cuda
