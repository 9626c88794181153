#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/observe/nvml.h"

namespace telar {

/// Measures the energy used by the machine's CPUs (and their memory, if it is counted separately) and its
/// NVIDIA GPUs, from hardware counters: RAPL through `root`/sys/class/powercap, or otherwise the kernel's
/// driver for AMD sockets through `root`/sys/class/hwmon; and NVML. The counters include all processes.
class EnergyMeter {
 public:
  /// Finds the counters that this process may read, and starts counting.
  explicit EnergyMeter(const std::filesystem::path& root = "/",
                       const std::string& nvml = "libnvidia-ml.so.1");

  /// "RAPL (package-0, dram)", "hwmon amd_energy (Esocket0), NVML (NVIDIA H200)"; empty if there is nothing
  /// to read.
  const std::string& source() const { return source_; }
  /// Why there is no source; empty if there is one.
  const std::string& missing() const { return missing_; }

  /// Joules since construction; none without a source. A counter may wrap around at most once between two
  /// calls; at 200 W, RAPL's wraps after about 20 minutes.
  std::optional<double> joules();

 private:
  struct Counter {
    std::function<std::optional<uint64_t>()> microjoules;
    uint64_t range;  ///< largest value before it wraps to 0; 0: 64 bits
    uint64_t last;
  };
  using Names = std::vector<std::string>;
  void add(const std::filesystem::path& file, uint64_t range, const std::string& name, Names& names);
  Names find_rapl(const std::filesystem::path& powercap);
  Names find_hwmon(const std::filesystem::path& hwmon);
  Names find_gpus();
  void add_source(const std::string& kind, const Names& names);

  Nvml nvml_;
  std::vector<Counter> counters_;
  std::string source_;
  std::string missing_;
  double microjoules_ = 0;
};

}  // namespace telar
