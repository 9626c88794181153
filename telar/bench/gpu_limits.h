#pragma once

#include <optional>
#include <string>

#include "telar/bench/limits.h"

namespace telar::bench {

/// What a GPU can do.
struct GpuLimits {
  double f32_operations =
      0;  ///< floating-point operations per second, of the fastest product of square matrices
  double tf32_operations = 0;  ///< the same with factors rounded to TF32
  double bf16_operations = 0;  ///< the same in bf16 with sums in f32
  double memory_bytes = 0;     ///< per second: read and written by additions that no cache holds
  double host_bytes = 0;   ///< per second: copied from pinned memory of the host; 0 where none can be pinned
  double cache_bytes = 0;  ///< of the cache that its multiprocessors share

  double operations(RowPrecision precision) const;
  /// That work of so many operations and bytes takes at least.
  double milliseconds(RowPrecision precision, double work, double bytes) const {
    return least_milliseconds(work, operations(precision), bytes, memory_bytes, cache_bytes);
  }
};

/// Of the GPU of this number, by graphs that are timed on it. Takes some seconds. Throws Error when it cannot be used.
GpuLimits measure_gpu_limits(int number);

/// Limits of a GPU of this name with this driver that were measured before; measured now, and kept, when there are none.
GpuLimits known_gpu_limits(int number);
/// Measures and keeps them, whatever was there.
GpuLimits renewed_gpu_limits(int number);
/// Keeps these as those of this GPU, and of others of its name.
void keep_gpu_limits(int number, const GpuLimits& limits);

/// "cuda:0 is NVIDIA H200 with 132 multiprocessors, driver for CUDA 13.0."; empty where it is no more.
std::string gpu_text(int number);

}  // namespace telar::bench
