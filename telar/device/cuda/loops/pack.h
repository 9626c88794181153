#pragma once

#include <cstddef>
#include <cstdint>

namespace telar::cuda {

/// Values that a thread reads or writes at once. 16 bytes are the most, and what memory is fastest with.
template <typename T, int64_t kCount = 16 / sizeof(T)>
struct alignas(sizeof(T) * kCount) Pack {
  static constexpr int64_t kValues = kCount;
  T values[kCount];
};

/// Whether an array can be read in packs of `bytes`. Values' own memory can, parts of it may not.
inline bool lies_for_packs(const void* array, size_t bytes = 16) {
  return reinterpret_cast<uintptr_t>(array) % bytes == 0;
}

}  // namespace telar::cuda
