#pragma once

#include <cstring>

#include "telar/device/cuda/loops/launch.h"

// Values that lie side by side, read and written at once: a GPU moves 16 bytes of a thread as fast as one.
namespace telar::cuda {

/// Values of T in 16 bytes.
template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

/// W numbers, to compute with.
template <int W>
struct Values {
  float of[W];
};

/// W numbers as they lie in memory.
template <typename T, int W>
struct alignas(sizeof(T) * W) Packed {
  T of[W];
};

/// As they lie, from memory that is aligned to the W values.
template <int W, typename T>
TELAR_GPU inline Packed<T, W> load_packed(const T* from) {
  return *reinterpret_cast<const Packed<T, W>*>(from);
}

template <typename T, int W>
TELAR_GPU inline Values<W> unpacked(const Packed<T, W>& packed) {
  Values<W> values;
  for (int i = 0; i < W; ++i) values.of[i] = to_float(packed.of[i]);
  return values;
}

template <int W, typename T>
TELAR_GPU inline Values<W> load(const T* from) {
  return unpacked(load_packed<W>(from));
}

/// To the GPU's memory: not to what a thread or a block has of its own.
template <typename T, int W>
TELAR_GPU inline void store_packed(T* to, const Packed<T, W>& packed) {
#ifdef __CUDACC__
  if constexpr (sizeof(packed) == sizeof(uint4)) {
    // Some stores, as the second one of a loop, nvcc 13.0 takes apart into four unless it is told so.
    uint4 bits;
    memcpy(&bits, &packed, sizeof(bits));
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Packed<T, W>*>(to) = packed;
}

template <int W, typename T>
TELAR_GPU inline void store(T* to, const Values<W>& values) {
  Packed<T, W> packed;
  for (int i = 0; i < W; ++i) store(packed.of[i], values.of[i]);
  store_packed(to, packed);
}

/// Calls f.at<W>(i) for every W values, from value i on, and f.at<1>(i) for those that are left; for all
/// where arrays lie otherwise than in packs of W (`packed`: see pack.h).
template <int W, typename F>
cudaError_t for_each_wide(int64_t count, bool packed, cudaStream_t stream, F f) {
  const int64_t packs = packed ? count / W : 0;
  return for_each(count - packs * (W - 1), stream, [=] TELAR_GPU(int64_t i) {
    if (i < packs) {
      f.template at<W>(i * W);
    } else {
      f.template at<1>(i + packs * (W - 1));
    }
  });
}

}  // namespace telar::cuda
