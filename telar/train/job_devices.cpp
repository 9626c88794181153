#include "telar/train/job_devices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "telar/core/error.h"
#include "telar/device/cuda.h"

namespace telar {

namespace {

constexpr int kMostCores = 4096;

Error wrong_name(const std::string& name) {
  return user_error("there is no device '{}'; it must be cpu, cpu:0-7 or cpu:0,2 (cores), cuda, or cuda:N",
                    name);
}

/// The cores in a list: "0-3,8" means 0 1 2 3 8.
std::vector<int> cores_named(const std::string& text, const std::string& name) {
  std::set<int> cores;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  const auto number = [&] {
    int value = -1;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || value >= kMostCores) throw wrong_name(name);
    at = stop;
    return value;
  };
  while (true) {
    const int first = number();
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first) throw wrong_name(name);
    for (int core = first; core <= last; ++core) cores.insert(core);
    if (at == end) break;
    if (*at++ != ',') throw wrong_name(name);
  }
  return {cores.begin(), cores.end()};
}

bool is_processor(const std::string& name) { return device_named(name).kind == "cpu"; }

}  // namespace

DeviceSpec device_named(const std::string& name) {
  if (name == "cpu") return {"cpu", 0, {}};
  if (name == "cuda") return {"cuda:0", 1, {}};
  if (name.starts_with("cpu:")) {
    std::vector<int> cores = cores_named(name.substr(4), name);
    const auto threads = static_cast<int>(cores.size());
    return {"cpu", threads, std::move(cores)};
  }
  if (!name.starts_with("cuda") && name != "gpu") throw wrong_name(name);
  return {"cuda:" + std::to_string(cuda_number(name).value_or(0)), 1, {}};
}

DeviceSpec device_named(const std::string& name, int index, int gpus) {
  const bool any = name == "cuda" || name == "gpu";
  return device_named(any && gpus > 0 ? fmt::format("cuda:{}", index % gpus) : name);
}

const std::string& device_of(const StrategyJob& strategy, size_t r) {
  return strategy.devices[strategy.devices.size() == 1 ? 0 : r];
}

std::string missing_device(const std::vector<std::string>& devices) {
  std::optional<CudaGpus> cuda;
  for (const std::string& name : devices) {
    const DeviceSpec device = device_named(name);
    // All cores of the host, even in a container that may not use some of them.
    const long cores = ::sysconf(_SC_NPROCESSORS_CONF);
    if (!device.cores.empty() && cores > 0 && device.cores.back() >= cores)
      return fmt::format("there is no core {}, which {} names; this machine has the cores 0 to {}",
                         device.cores.back(), name, cores - 1);
    if (device.kind == "cpu") continue;
    if (!cuda) cuda = find_cuda_gpus();
    if (!cuda->not_found.empty()) return fmt::format("{} cannot be used: {}", name, cuda->not_found);
    const auto gpus = static_cast<int>(cuda->gpus.size());
    if (cuda_number(device.kind).value_or(0) >= gpus)
      return fmt::format("there is no {}; CUDA reports {} GPU{} here, starting with cuda:0", name, gpus,
                         gpus == 1 ? "" : "s");
  }
  return {};
}

bool has_processor(const StrategyJob& strategy) {
  return std::any_of(strategy.devices.begin(), strategy.devices.end(), is_processor);
}
bool has_gpu(const StrategyJob& strategy) {
  return !std::all_of(strategy.devices.begin(), strategy.devices.end(), is_processor);
}
bool devices_differ(const StrategyJob& strategy) { return has_processor(strategy) && has_gpu(strategy); }

}  // namespace telar
