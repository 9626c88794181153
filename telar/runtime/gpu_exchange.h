#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/device/device.h"

namespace telar {

/// How gradients are exchanged between GPUs.
enum class GpuExchange : uint8_t {
  automatic,  ///< NCCL if it is available and each replica has its own GPU; otherwise through host memory
  nccl,       ///< fails with the reason if NCCL cannot be used
  host
};

/// Returns why NCCL cannot sum the gradients of the replicas on these devices and on those of the other
/// processes; empty if it can. Every process calls it.
std::string why_not_nccl(const std::vector<std::unique_ptr<Device>>& devices, Processes* processes);

}  // namespace telar
