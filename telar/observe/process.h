#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "telar/io/disk.h"  // free_disk_bytes(), bytes_text()

namespace telar {

/// The most memory (resident set) that this process has held so far, in bytes.
uint64_t peak_memory_bytes();

/// Threads that one team of this process may run at once: its affinity mask, and OMP_THREAD_LIMIT where that is set.
int available_threads();

/// Name of this host; "localhost" when it has none.
std::string host_name();

struct MemoryInfo {
  uint64_t total = 0;      ///< bytes of the host
  uint64_t available = 0;  ///< bytes that can be had without swapping
};

/// From `root`/proc/meminfo; zeros when that cannot be read. Tests use a recorded tree as `root`.
MemoryInfo read_memory(const std::filesystem::path& root = "/");

/// Limits that a container sets for this process (cgroup version 2); empty where there is none.
struct ContainerLimits {
  std::optional<double> cpus;  ///< 1.5 means one and a half processors' time
  std::optional<uint64_t> memory_bytes;
};
ContainerLimits read_container_limits(const std::filesystem::path& root = "/");

}  // namespace telar
