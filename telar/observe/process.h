#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "telar/io/disk.h"  // free_disk_bytes(), bytes_text()
#include "telar/observe/cgroup.h"

namespace telar {

/// Peak memory (resident set) of this process so far, in bytes.
uint64_t peak_memory_bytes();

/// The number of threads that this process may run at once: the size of its affinity mask, limited by
/// OMP_THREAD_LIMIT if set.
int bound_threads();

/// The number of threads that one of `processes` processes of this host should run. It is bound_threads(), or
/// less where the processes share a processor quota of a container or service: a quota of 1.5 CPUs is worth
/// two threads for one process, and one thread for each of two. Unless each process is bound to processors of
/// its own, they share those, too.
int available_threads(int processes = 1, const CgroupLimits& limits = read_cgroup_limits());

/// "a control group allows this process the time of 1.5 CPUs, so 2 threads are used by default" if a quota
/// reduces available_threads(); otherwise empty.
std::string quota_text(int processes = 1, const CgroupLimits& limits = read_cgroup_limits());

/// Name of this host; "localhost" if it has none.
std::string host_name();

struct MemoryInfo {
  uint64_t total = 0;      ///< bytes of the host
  uint64_t available = 0;  ///< bytes that this process may still use without swapping or being killed
};

/// Reads `root`/proc/meminfo and the limits of control groups; zeros if the host's memory cannot be read.
/// Tests use a recorded tree as `root`.
MemoryInfo read_memory(const std::filesystem::path& root = "/");

/// The memory that this process may use: the machine's, or what control groups or ulimit allow; 0 if unknown.
uint64_t usable_memory_bytes(const std::filesystem::path& root = "/");

}  // namespace telar
