#pragma once

#include <cstddef>
#include <cstdint>

namespace telar::cuda {

/// Values that a thread reads or writes at once. 16 bytes are the maximum and give the highest memory
/// bandwidth.
template <typename T, int64_t kCount = 16 / sizeof(T)>
struct alignas(sizeof(T) * kCount) Pack {
  static constexpr int64_t kValues = kCount;
  T values[kCount];
};

/// Whether an array is aligned for packs of `bytes`. The memory of a value always is; a part of it may not
/// be.
inline bool lies_for_packs(const void* array, size_t bytes = 16) {
  return reinterpret_cast<uintptr_t>(array) % bytes == 0;
}

}  // namespace telar::cuda
