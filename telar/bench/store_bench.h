#pragma once

#include <cstddef>
#include <vector>

namespace telar {

/// Push and pull of one range, measured again and again after a warm-up.
struct StoreTiming {
  size_t bytes = 0;  ///< in one direction
  bool shared_memory = false;
  double median = 0;  ///< seconds
  double shortest = 0;
  double longest = 0;
  int repetitions = 0;
  double bytes_per_second() const { return 2 * static_cast<double>(bytes) / median; }  ///< both ways
};

/// A server of 40 MiB of parameters to which four members of another process pushed over gRPC, as the updates came and in rounds.
struct StoreMemoryFigure {
  bool saving = false;  ///< snapshots meanwhile, one after the other
  size_t slots = 0;     ///< arenas of optimizer state beside the parameters: 0 for SGD, 2 for Adam
  size_t arenas = 0;    ///< bytes of parameters and state
  double beside =
      0;  ///< bytes of the process's largest size beyond these and beyond that of a server of 64 bytes
  size_t allowed = 0;  ///< twice the largest bucket
};

struct StoreBench {
  std::vector<StoreTiming> timings;
  std::vector<StoreMemoryFigure> memory;
  double copy_bytes_per_second = 0;  ///< limit of shared memory: memcpy by one thread, read + written
  double loopback_bytes_per_second =
      0;  ///< limit of gRPC: both ways at once through one TCP connection over the loopback
  double loopback_round_trip = 0;  ///< seconds, of 4 KB
};

/// Pushes `bytes` to a parameter server of another process, which subtracts them from its parameters, and pulls these: over gRPC and over
/// shared memory, each at least 10 times and 1 s. The limits are measured in the same run. Call it before this process has threads:
/// it forks. Throws Error (run) when the server does not come up.
StoreBench bench_store(const std::vector<size_t>& bytes);

}  // namespace telar
