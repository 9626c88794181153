#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "telar/io/disk.h"  // free_disk_bytes(), bytes_text()

namespace telar {

/// Peak memory (resident set) of this process so far, in bytes.
uint64_t peak_memory_bytes();

/// The number of threads that one team of this process may run at once: the size of its affinity mask,
/// limited by OMP_THREAD_LIMIT if set.
int available_threads();

/// Name of this host; "localhost" if it has none.
std::string host_name();

struct MemoryInfo {
  uint64_t total = 0;      ///< bytes of the host
  uint64_t available = 0;  ///< bytes available without swapping
};

/// Reads `root`/proc/meminfo; zeros if it cannot be read. Tests use a recorded tree as `root`.
MemoryInfo read_memory(const std::filesystem::path& root = "/");

/// Limits that a container sets for this process (cgroup version 2); empty if there are none.
struct ContainerLimits {
  std::optional<double> cpus;  ///< 1.5 means the time of one and a half CPUs
  std::optional<uint64_t> memory_bytes;
};
ContainerLimits read_container_limits(const std::filesystem::path& root = "/");

}  // namespace telar
