#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/group.h"
#include "telar/device/device.h"

namespace telar {

/// A GPU that CUDA can use.
struct CudaGpu {
  std::string name;        ///< "NVIDIA H200"
  uint64_t memory = 0;     ///< bytes
  std::string capability;  ///< compute capability: "9.0"
  int multiprocessors = 0;
  uint64_t cache = 0;               ///< bytes of the L2 cache, shared by all multiprocessors
  std::vector<int> peers = {};      ///< GPUs whose memory it can access directly
  std::vector<int> by_nvlink = {};  ///< peers whose link has native atomics: NVLink, not PCIe
};

struct CudaGpus {
  std::vector<CudaGpu> gpus;  ///< in CUDA's order: the index is the number for make_cuda_device
  std::string driver;     ///< newest CUDA version that the driver supports: "13.0"; empty without a driver
  std::string not_found;  ///< why there are none, without a full stop; empty otherwise
  std::string lost = {};  ///< what is slower because a library is missing, without a full stop
};

/// Loads the module telar-cuda and lists the GPUs. Never throws: a failure is reported in `not_found`.
CudaGpus find_cuda_gpus();

/// The number in the name of a GPU: 0 for "gpu" and "cuda", N for "cuda:N"; none when the name is not that of
/// a GPU. Throws Error (user) for a name that begins like a GPU's but has no valid number: "cuda:",
/// "cuda:-1", "cuda:x", "gpu0".
std::optional<int> cuda_number(const std::string& device);

/// Throws Error (user) with the reason when NCCL is not available. One thread calls it once, before the two
/// functions below.
void require_nccl();
/// The name of a new group over NCCL. One member creates it and passes it to all others.
std::string new_gpu_group();
/// Wraps `host`, a member of a host group that computes on this GPU: NCCL then sums the gradients between
/// GPUs. Each member has its own GPU. Waits for all members; `host` must outlive the result. Throws Error.
std::unique_ptr<Group> join_gpu_group(const Device& device, Group& host, const std::string& name);

namespace cuda {

/// The functions of the module telar-cuda.
struct Functions {
  std::unique_ptr<Device> (*make_device)(int number) = nullptr;  ///< throws like make_cuda_device
  CudaGpus (*find_gpus)() = nullptr;                             ///< never throws
  void (*require_nccl)() = nullptr;
  std::string (*new_group)() = nullptr;
  std::unique_ptr<Group> (*join_group)(const Device& device, Group& host, const std::string& name) = nullptr;
};

/// The function that the module exports under the name kEntry.
using Entry = void (*)(Functions& functions);
inline constexpr const char* kEntry = "telar_cuda";

}  // namespace cuda

}  // namespace telar
