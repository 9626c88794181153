#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/observe/nvml.h"

namespace telar {

/// The energy that the machine's processors (and, where it is counted apart, their memory) and its NVIDIA GPUs have used, from counters of
/// the hardware: RAPL through `root`/sys/class/powercap, else the kernel's driver for AMD's sockets through `root`/sys/class/hwmon; and
/// NVML. Whoever computes on them.
class EnergyMeter {
 public:
  /// Finds the counters that this process may read, and starts counting.
  explicit EnergyMeter(const std::filesystem::path& root = "/",
                       const std::string& nvml = "libnvidia-ml.so.1");

  /// "RAPL (package-0, dram)", "hwmon amd_energy (Esocket0), NVML (NVIDIA H200)"; empty when there is nothing to read.
  const std::string& source() const { return source_; }
  /// Why there is no source, in words; empty when there is one.
  const std::string& missing() const { return missing_; }

  /// Joules since the meter was made; none without a source. A counter that has wrapped around since the last call is counted right
  /// when it did so once: at 200 W RAPL's wraps after some 20 minutes.
  std::optional<double> joules();

 private:
  struct Counter {
    std::function<std::optional<uint64_t>()> microjoules;
    uint64_t range;  ///< the largest value before it starts at 0 again; 0: 64 bits
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
