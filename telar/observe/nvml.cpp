#include "telar/observe/nvml.h"

#include <dlfcn.h>

#include <array>

namespace telar {

template <typename Function>
Function* Nvml::find(const char* name) const {
  return reinterpret_cast<Function*>(::dlsym(library_, name));
}

// Declarations as in nvml.h: functions return 0 on success, and a device is an opaque pointer.
Nvml::Nvml(const std::string& library) : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  const auto init = find<int()>("nvmlInit_v2");
  const auto count_of = find<int(unsigned*)>("nvmlDeviceGetCount_v2");
  const auto device_of = find<int(unsigned, void**)>("nvmlDeviceGetHandleByIndex_v2");
  const auto name_of = find<int(void*, char*, unsigned)>("nvmlDeviceGetName");
  energy_ = find<int(void*, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
  unsigned count = 0;
  if (init == nullptr || count_of == nullptr || device_of == nullptr || name_of == nullptr ||
      energy_ == nullptr || init() != 0 || count_of(&count) != 0)
    return;
  for (unsigned i = 0; i < count; ++i) {
    void* device = nullptr;
    std::array<char, 96> name{};
    unsigned long long millijoules = 0;
    if (device_of(i, &device) != 0 || energy_(device, &millijoules) != 0) continue;
    devices_.push_back(device);
    names_.emplace_back(name_of(device, name.data(), name.size()) == 0 ? name.data() : "GPU");
  }
}

Nvml::~Nvml() {
  if (library_ == nullptr) return;
  if (const auto shutdown = find<int()>("nvmlShutdown")) shutdown();
  ::dlclose(library_);
}

std::optional<uint64_t> Nvml::millijoules(size_t gpu) const {
  unsigned long long value = 0;
  if (energy_(devices_[gpu], &value) != 0) return std::nullopt;
  return value;
}

}  // namespace telar
