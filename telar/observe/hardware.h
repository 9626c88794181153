#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace telar {

/// One kind of cache of the host's processors.
struct CpuCache {
  int level = 0;       ///< 1, 2, 3
  std::string type;    ///< "Data", "Instruction", "Unified"
  uint64_t bytes = 0;  ///< of one
  int threads = 0;     ///< that share one
  int count = 0;       ///< how many there are
};

/// Threads whose cores share their last-level cache and are equally fast: what a replica should stay within.
struct CoreGroup {
  std::vector<int> threads;  ///< numbers of the processors as the system counts them
  int cores = 0;             ///< two hardware threads of one core count once
  int package = 0;
  uint64_t cache_bytes = 0;  ///< of the shared cache; 0 when the system does not say
};

struct CpuInfo {
  std::string model;  ///< "AMD EPYC 9654"; "unknown processor" when the system does not say
  int packages = 0;
  int cores = 0;
  int threads = 0;
  std::vector<CoreGroup> groups;
  std::vector<CpuCache> caches;
  std::vector<std::string> features;  ///< those that matter here: avx2, avx512f, avx512_bf16, amx_bf16 …
};

/// The processors of the host, from `root`/proc/cpuinfo and `root`/sys/devices/system/cpu. Where the latter is
/// missing (some sandboxes) each thread counts as a core and all are one group.
CpuInfo read_cpu(const std::filesystem::path& root = "/");

/// "0-3,8" as {0, 1, 2, 3, 8}; reads as far as the text makes sense.
std::vector<int> parse_cpu_list(const std::string& text);

struct NvidiaGpu {
  std::string model;  ///< "NVIDIA H200"
  std::string bus;    ///< "0000:01:00.0"
  int minor = 0;      ///< /dev/nvidiaMINOR
};

struct NvidiaSearch {
  std::vector<NvidiaGpu> gpus;  ///< those that this process could open, by minor
  std::string
      not_found;  ///< why there are none or fewer than the host has: a sentence without a full stop; else empty
};

/// Looks for NVIDIA GPUs: `root`/proc/driver/nvidia, `root`/dev/nvidia* and the PCI bus. Loads no driver library.
NvidiaSearch find_nvidia_gpus(const std::filesystem::path& root = "/");

}  // namespace telar
