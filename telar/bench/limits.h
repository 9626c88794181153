#pragma once

#include <filesystem>
#include <string>

#include "telar/core/dtype.h"

namespace telar::bench {

/// What this machine can do with so many threads.
struct Limits {
  int threads = 1;
  double f32_operations =
      0;  ///< floating-point operations per second, of the fastest product of square matrices
  double bf16_operations = 0;   ///< the same in bf16 with sums in f32
  double memory_bytes = 0;      ///< per second: read and written by a copy that no cache holds
  double all_reduce_bytes = 0;  ///< per second: gradients summed between that many threads; 0 with one

  double operations(DType dtype) const { return dtype == DType::bf16 ? bf16_operations : f32_operations; }
  /// Milliseconds that work of so many operations and bytes takes at least.
  double milliseconds(DType dtype, double operations, double bytes) const;
};

/// Takes some seconds.
Limits measure_limits(int threads);

/// Limits of this machine (its processor, the libraries, the number of threads) that were measured before; measured now, and kept, when
/// there are none.
Limits known_limits(int threads);
/// Measures and keeps them, whatever was there.
Limits renewed_limits(int threads);
/// Keeps these as this machine's, with this build's libraries.
void keep_limits(const Limits& limits);

/// Where they are kept: $XDG_CACHE_HOME/telar/limits.json, or that of ~/.cache.
std::filesystem::path limits_file();

}  // namespace telar::bench
