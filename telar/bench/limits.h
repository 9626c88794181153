#pragma once

#include <functional>
#include <string>

#include "telar/core/dtype.h"

namespace telar::bench {

/// The precision in which a row computes.
struct RowPrecision {
  DType dtype = DType::f32;
  bool tf32 = false;  ///< f32 on GPUs only: factors rounded to TF32

  std::string name() const { return dtype == DType::bf16 ? "bf16" : tf32 ? "tf32" : "f32"; }
};

/// The minimum time in milliseconds for a number of operations and bytes at these rates per second. If the
/// bytes fit in the cache, repetitions do not read memory, and the byte rate does not count.
double least_milliseconds(double operations, double operation_rate, double bytes, double byte_rate,
                          double cache_bytes);

/// The peak rates of this machine with a number of threads.
struct Limits {
  int threads = 1;
  double f32_operations =
      0;  ///< floating-point operations per second of the fastest product of square matrices
  double bf16_operations = 0;   ///< the same in bf16 with sums in f32; 0: this CPU cannot compute in bf16
  double memory_bytes = 0;      ///< per second: read and written by a copy that exceeds every cache
  double all_reduce_bytes = 0;  ///< per second: gradients summed between that many threads; 0 for one thread
  double process_all_reduce_bytes = 0;  ///< the same between that many processes; 0: not measured
  double cache_bytes = 0;               ///< sum over the last-level caches
  double others = 0;                    ///< processors that other processes used during the measurement

  double operations(DType dtype) const { return dtype == DType::bf16 ? bf16_operations : f32_operations; }
  /// The minimum time for a number of operations and bytes.
  double milliseconds(DType dtype, double work, double bytes) const {
    return least_milliseconds(work, operations(dtype), bytes, memory_bytes, cache_bytes);
  }
};

/// Takes some seconds. Does not measure communication between processes.
Limits measure_limits(int threads);

/// Measures with `program bench comm` under mpirun how many bytes of gradients per second each of several
/// local processes gets summed. Takes some seconds. Returns 0 if `stop_requested` returns true. Throws Error
/// (run) if it fails.
double measure_all_reduce_between(int processes, const std::string& program,
                                  const std::function<bool()>& stop_requested);

/// True if other processes leave the CPU idle; observes it for 0.3 s.
bool machine_is_quiet();

/// The stored limits for this machine: its CPU, the libraries, the number of threads. They are measured and
/// stored if there are none, or if the stored ones were measured on a busy machine that is quiet now.
Limits known_limits(int threads, const std::function<bool()>& quiet = machine_is_quiet);
/// Measures and stores the limits even if some are stored. Keeps the stored rate between processes.
Limits renewed_limits(int threads);
/// "The limits … were measured while other processes used 1.2 processors …"; empty for limits of a quiet
/// machine.
std::string busy_text(const Limits& limits);
/// Stores limits for this machine and this build's libraries.
void keep_limits(const Limits& limits);

}  // namespace telar::bench
