#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "telar/core/dtype.h"

namespace telar::test {

/// What the libraries' stand-ins are to do, and what they were told.
struct Fake {
  int driver = 13000;
  int gpus = 1;
  size_t memory = size_t{1} << 30;    ///< of one allocation
  cudaError_t failure = cudaSuccess;  ///< of what a stream was told, found when somebody waits for it
  bool channels_last = true;          ///< whether cuDNN can compute with channels last
  int products_that_work = 8;         ///< how many of cuBLASLt's proposals can be run, from the last one on

  int blocks = 0;        ///< allocated now
  int waits = 0;         ///< for a stream
  int products = 0;      ///< that were computed
  int convolutions = 0;  ///< likewise
};
Fake& fake();

/// The value of element `i`, f32 or bf16, and its place taken by another.
inline float load(const void* memory, bool bf16, size_t i) {
  return bf16 ? from_bf16(static_cast<const uint16_t*>(memory)[i]) : static_cast<const float*>(memory)[i];
}
inline void store(void* memory, bool bf16, size_t i, float value) {
  if (bf16) {
    static_cast<uint16_t*>(memory)[i] = to_bf16(value);
  } else {
    static_cast<float*>(memory)[i] = value;
  }
}
/// Aligned as the libraries were promised.
inline bool is_aligned(const void* memory) { return reinterpret_cast<uintptr_t>(memory) % 256 == 0; }

}  // namespace telar::test
