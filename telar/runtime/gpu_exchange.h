#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/device/device.h"

namespace telar {

/// How gradients go between GPUs.
enum class GpuExchange : uint8_t {
  automatic,  ///< NCCL where it is and each replica has a GPU of its own, else the host's memory
  nccl,       ///< or an error that says why not
  host
};

/// Why NCCL cannot sum the gradients of replicas on these devices, and on those of the other processes; empty when it can. Every
/// process calls it.
std::string why_not_nccl(const std::vector<std::unique_ptr<Device>>& devices, Processes* processes);

}  // namespace telar
