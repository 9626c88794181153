#pragma once

#include <functional>
#include <string>

#include "telar/core/dtype.h"

namespace telar::bench {

/// In what a row computes.
struct RowPrecision {
  DType dtype = DType::f32;
  bool tf32 = false;  ///< of f32, on GPUs alone: factors rounded to TF32

  std::string name() const { return dtype == DType::bf16 ? "bf16" : tf32 ? "tf32" : "f32"; }
};

/// Milliseconds that so many operations and bytes take at least at these rates of a second. Bytes that a cache holds come, repetition
/// after repetition, from no memory.
double least_milliseconds(double operations, double operation_rate, double bytes, double byte_rate,
                          double cache_bytes);

/// What this machine can do with so many threads.
struct Limits {
  int threads = 1;
  double f32_operations =
      0;  ///< floating-point operations per second, of the fastest product of square matrices
  double bf16_operations = 0;   ///< the same in bf16 with sums in f32
  double memory_bytes = 0;      ///< per second: read and written by a copy that no cache holds
  double all_reduce_bytes = 0;  ///< per second: gradients summed between that many threads; 0 with one
  double process_all_reduce_bytes = 0;  ///< the same between that many processes; 0: not measured
  double cache_bytes = 0;               ///< of the last-level caches together
  double others = 0;                    ///< processors that others kept busy while this was measured

  double operations(DType dtype) const { return dtype == DType::bf16 ? bf16_operations : f32_operations; }
  /// That work of so many operations and bytes takes at least.
  double milliseconds(DType dtype, double work, double bytes) const {
    return least_milliseconds(work, operations(dtype), bytes, memory_bytes, cache_bytes);
  }
};

/// Takes some seconds. What there is between processes is left out.
Limits measure_limits(int threads);

/// Bytes of gradients that each of so many processes of this machine gets summed in a second, by `program bench comm` under mpirun; 0 when it was
/// told to stop. Takes some seconds. Throws Error (run) when it fails.
double measure_all_reduce_between(int processes, const std::string& program,
                                  const std::function<bool()>& stop_requested);

/// Whether others leave the processors alone; looks for 0.3 s.
bool machine_is_quiet();

/// Limits of this machine (its processor, the libraries, the number of threads) that were measured before; measured now, and kept, when
/// there are none, and when those were measured on a busy machine that now is quiet.
Limits known_limits(int threads, const std::function<bool()>& quiet = machine_is_quiet);
/// Measures and keeps them, whatever was there but for what there is between processes.
Limits renewed_limits(int threads);
/// "The limits were measured while others kept 1.2 processors busy …"; empty for limits of a quiet machine.
std::string busy_text(const Limits& limits);
/// Keeps these as this machine's, with this build's libraries.
void keep_limits(const Limits& limits);

}  // namespace telar::bench
