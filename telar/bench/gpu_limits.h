#pragma once

#include <optional>
#include <string>

#include "telar/bench/limits.h"

namespace telar::bench {

/// The peak rates of a GPU.
struct GpuLimits {
  double f32_operations =
      0;  ///< floating-point operations per second of the fastest product of square matrices
  double tf32_operations = 0;  ///< the same with factors rounded to TF32
  double bf16_operations = 0;  ///< the same in bf16 with sums in f32
  double memory_bytes = 0;     ///< per second: read and written by additions that exceed every cache
  double host_bytes = 0;       ///< per second: copied from pinned host memory; 0 if none can be pinned
  double cache_bytes = 0;      ///< size of the cache that the multiprocessors share

  double operations(RowPrecision precision) const;
  /// The minimum time for a number of operations and bytes.
  double milliseconds(RowPrecision precision, double work, double bytes) const {
    return least_milliseconds(work, operations(precision), bytes, memory_bytes, cache_bytes);
  }
};

/// Measures the limits of the GPU with this number by timing graphs on it. Takes some seconds. Throws Error
/// if the GPU cannot be used.
GpuLimits measure_gpu_limits(int number);

/// The stored limits for GPUs with this GPU's name and driver. If there are none, measures and stores them.
GpuLimits known_gpu_limits(int number);
/// Measures and stores the limits even if some are stored.
GpuLimits renewed_gpu_limits(int number);
/// Stores limits for this GPU and all others with its name.
void keep_gpu_limits(int number, const GpuLimits& limits);

/// "cuda:0 is NVIDIA H200 with 132 multiprocessors, driver for CUDA 13.0."; empty if there is no such GPU any
/// more.
std::string gpu_text(int number);

}  // namespace telar::bench
