#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace telar {

/// The energy that NVIDIA's driver counts for each GPU, read through the driver's library (NVML). The library
/// is loaded if present and is not needed for building.
class Nvml {
 public:
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Names of the GPUs with an energy counter: "NVIDIA H200". (GPUs before Volta have none.)
  const std::vector<std::string>& names() const { return names_; }
  /// Energy used by a GPU since its driver was loaded; none if it cannot be read now.
  std::optional<uint64_t> millijoules(size_t gpu) const;

 private:
  template <typename Function>
  Function* find(const char* name) const;

  void* library_ = nullptr;
  int (*energy_)(void* device, unsigned long long* millijoules) = nullptr;
  std::vector<void*> devices_;
  std::vector<std::string> names_;
};

}  // namespace telar
