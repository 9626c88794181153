#pragma once

#include <cstring>

#include "telar/device/cuda/loops/launch.h"

// Adjacent values that are read and written together: a thread moves 16 bytes as fast as one value.
namespace telar::cuda {

/// The number of values of T in 16 bytes.
template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

/// W numbers in f32, for computations.
template <int W>
struct Values {
  float of[W];
};

/// W numbers in their storage type.
template <typename T, int W>
struct alignas(sizeof(T) * W) Packed {
  T of[W];
};

/// Without conversion, from memory aligned to W values.
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

/// Writes to global memory only, not to a thread's or block's own memory.
template <typename T, int W>
TELAR_GPU inline void store_packed(T* to, const Packed<T, W>& packed) {
#ifdef __CUDACC__
  if constexpr (sizeof(packed) == sizeof(uint4)) {
    // nvcc 13.0 splits some stores, for example the second one in a loop, into four. The assembly prevents
    // this.
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

/// Calls f.at<W>(i) for every group of W values, from value i on, and f.at<1>(i) for the rest. Calls only
/// f.at<1> if an array is not aligned for packs of W (`packed`: see pack.h).
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
