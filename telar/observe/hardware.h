#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace telar {

/// One kind of cache of the host's CPUs.
struct CpuCache {
  int level = 0;       ///< 1, 2, 3
  std::string type;    ///< "Data", "Instruction", "Unified"
  uint64_t bytes = 0;  ///< size of one cache
  int threads = 0;     ///< threads that share one cache
  int count = 0;       ///< number of such caches
};

/// Threads whose cores share their last-level cache and are equally fast. A replica should stay within one
/// group.
struct CoreGroup {
  std::vector<int> threads;  ///< CPU numbers as the system counts them
  int cores = 0;             ///< two hardware threads of one core count once
  int package = 0;
  uint64_t cache_bytes = 0;  ///< of the shared cache; 0 if the system does not report it
};

struct CpuInfo {
  std::string model;  ///< "AMD EPYC 9654"; "unknown processor" if the system does not report it
  int packages = 0;
  int cores = 0;
  int threads = 0;
  std::vector<CoreGroup> groups;
  std::vector<CpuCache> caches;
  std::vector<std::string> features;  ///< those that matter here: avx2, avx512f, avx512_bf16, amx_bf16 …
};

/// Reads the host's CPUs from `root`/proc/cpuinfo and `root`/sys/devices/system/cpu. If the latter is missing
/// (some sandboxes), each thread counts as a core and all threads form one group.
CpuInfo read_cpu(const std::filesystem::path& root = "/");

/// Parses "0-3,8" as {0, 1, 2, 3, 8}, up to the first invalid character.
std::vector<int> parse_cpu_list(const std::string& text);

struct NvidiaGpu {
  std::string model;  ///< "NVIDIA H200"
  std::string bus;    ///< "0000:01:00.0"
  int minor = 0;      ///< /dev/nvidiaMINOR
};

struct NvidiaSearch {
  std::vector<NvidiaGpu> gpus;  ///< those that this process could open, by minor number
  std::string not_found;        ///< why there are none, or fewer than the host has; empty if none is missing
};

/// Searches for NVIDIA GPUs in `root`/proc/driver/nvidia, `root`/dev/nvidia* and on the PCI bus. Loads no
/// driver library.
NvidiaSearch find_nvidia_gpus(const std::filesystem::path& root = "/");

}  // namespace telar
