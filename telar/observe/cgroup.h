#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace telar {

/// Limits that a container, a service or a batch system sets for this process by control groups of Linux,
/// version 1 or 2. The lowest limit counts, of the process's own group and of all groups around it that are
/// visible. Empty: there is no limit.
struct CgroupLimits {
  std::optional<double> cpus;            ///< processor time per time; 1.5 means one and a half CPUs
  std::optional<uint64_t> memory_bytes;  ///< beyond it, the kernel kills a process of the group
  /// What the group may still use below `memory_bytes`; the file cache counts as free, since the kernel drops
  /// it first.
  std::optional<uint64_t> memory_left;
};

/// Reads `root`/proc/self/cgroup, `root`/proc/self/mountinfo and the files of the groups. What cannot be read
/// sets no limit. Tests use a recorded tree as `root`.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace telar
