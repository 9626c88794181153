#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace telar {

/// The energy that NVIDIA's driver counts for each GPU, through the library that comes with it (NVML). It is loaded when it is there;
/// nothing of it is needed to build.
class Nvml {
 public:
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Names of the GPUs that count: "NVIDIA H200". (Those before Volta do not.)
  const std::vector<std::string>& names() const { return names_; }
  /// Of one of them, since its driver was loaded; none when it cannot be read now.
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
