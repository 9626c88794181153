// Replaces the driver's library in tests.
// It has two GPUs. One of them counts its energy, which grows by 1.5 J with each reading.

#include <cstring>

namespace {
constexpr int kNotSupported = 3;
int first = 0;
int second = 0;
}  // namespace

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = index == 0 ? &first : &second;
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned length) {
  std::strncpy(name, "NVIDIA Test", length - 1);
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  static unsigned long long total = 1'000'000;
  if (device != &first) return kNotSupported;
  *millijoules = total += 1500;
  return 0;
}
}
