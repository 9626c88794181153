#include "telar/runtime/gpu_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "telar/observe/process.h"

namespace telar {

std::string why_not_nccl(const std::vector<std::unique_ptr<Device>>& devices, Processes* processes) {
  std::string mine;
  bool gpus = true;
  for (const auto& device : devices) {
    gpus = gpus && !device->in_host_memory();
    mine += fmt::format("{} {} of {}\n", device->identity(), device->name(), host_name());
  }
  if (processes != nullptr) gpus = !processes->any(!gpus);
  if (!gpus) return "not all replicas run on GPUs";
  std::set<std::string> different;
  for (const std::string& names : processes == nullptr ? std::vector{mine} : processes->gather(mine)) {
    std::istringstream lines(names);
    for (std::string line; std::getline(lines, line);)
      if (const size_t end = line.find(' '); !different.insert(line.substr(0, end)).second)
        return fmt::format("several replicas share {}", line.substr(end + 1));
  }
  return {};
}

}  // namespace telar
