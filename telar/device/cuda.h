#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "telar/comm/group.h"
#include "telar/device/device.h"

namespace telar {

/// A GPU that CUDA can compute on.
struct CudaGpu {
  std::string name;        ///< "NVIDIA H200"
  uint64_t memory = 0;     ///< bytes
  std::string capability;  ///< compute capability: "9.0"
  int multiprocessors = 0;
  uint64_t cache = 0;           ///< bytes of the cache that these share
  std::vector<int> peers = {};  ///< GPUs whose memory it reaches without the host
  std::vector<int> by_nvlink =
      {};  ///< those of them with atomic operations across the link, which NVLink has and PCIe has not
};

struct CudaGpus {
  std::vector<CudaGpu> gpus;  ///< in CUDA's order: the number of make_cuda_device
  std::string driver;         ///< the newest CUDA that the driver knows: "13.0"; empty without a driver
  std::string not_found;      ///< why there are none: a sentence without a full stop; else empty
  std::string lost = {};      ///< what they cannot do as well, for want of a library: likewise
};

/// Loads the module telar-cuda and asks it. Never throws: what is in the way is `not_found`.
CudaGpus find_cuda_gpus();

/// The number in the name of a GPU: 0 of "gpu" and "cuda", N of "cuda:N"; none when the name is not that of a
/// GPU at all. Throws Error (user) for a name that begins as a GPU's but has no number: "cuda:", "cuda:-1",
/// "cuda:x", "gpu0".
std::optional<int> cuda_number(const std::string& device);

/// Throws Error (user) with the reason when NCCL is not here. Called once before the two below, by one
/// thread.
void require_nccl();
/// The name of a group over NCCL, which one of its members makes and all have in common.
std::string new_gpu_group();
/// `host`, a member of a group that computes on this GPU, as a member whose gradients are summed between GPUs
/// by NCCL. Each has a GPU of its own. Waits for all members; `host` must outlive it. Throws Error.
std::unique_ptr<Group> join_gpu_group(const Device& device, Group& host, const std::string& name);

namespace cuda {

/// What the module telar-cuda can do.
struct Functions {
  std::unique_ptr<Device> (*make_device)(int number) = nullptr;  ///< throws as make_cuda_device
  CudaGpus (*find_gpus)() = nullptr;                             ///< never throws
  void (*require_nccl)() = nullptr;
  std::string (*new_group)() = nullptr;
  std::unique_ptr<Group> (*join_group)(const Device& device, Group& host, const std::string& name) = nullptr;
};

/// The function that the module exports under kEntry.
using Entry = void (*)(Functions& functions);
inline constexpr const char* kEntry = "telar_cuda";

}  // namespace cuda

}  // namespace telar
