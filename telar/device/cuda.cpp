#include "telar/device/cuda.h"

#include <charconv>

#include "telar/core/error.h"
#include "telar/core/module.h"

namespace telar {

namespace {

cuda::Functions load() {
  const LoadedModule module = load_module("telar-cuda", cuda::kEntry);
  if (module.entry != nullptr) {
    cuda::Functions functions;
    reinterpret_cast<cuda::Entry>(module.entry)(functions);
    return functions;
  }
  if (module.reason.empty()) {
    throw user_error(
        "this build supports CPU devices only: the module telar-cuda is missing; build it on a machine with CUDA 13 and cuDNN 9 (docs/gpu.md)");
  }
  throw user_error(
      "the module telar-cuda cannot be loaded: {}; it needs cuBLASLt of CUDA 13 and cuDNN 9 in the system's library folders or in LD_LIBRARY_PATH (docs/gpu.md)",
      module.reason);
}

}  // namespace

std::unique_ptr<Device> make_cuda_device(int number) { return load().make_device(number); }

void require_nccl() { load().require_nccl(); }

std::string new_gpu_group() { return load().new_group(); }

std::unique_ptr<Group> join_gpu_group(const Device& device, Group& host, const std::string& name) {
  return load().join_group(device, host, name);
}

CudaGpus find_cuda_gpus() {
  try {
    return load().find_gpus();
  } catch (const Error& error) {
    return {{}, {}, error.what()};
  }
}

std::optional<int> cuda_number(const std::string& device) {
  if (!device.starts_with("gpu") && !device.starts_with("cuda")) return std::nullopt;
  if (device == "gpu" || device == "cuda") return 0;
  if (device == "cuda:") throw user_error("the device 'cuda:' lacks its number, as in cuda:0");
  const std::string digits = device.starts_with("cuda:") ? device.substr(5) : "";
  int number = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || number < 0)
    throw user_error(
        "there is no device '{}'; a GPU is cuda (cuda:0), gpu (the same) or cuda:N, with N from 0", device);
  return number;
}

}  // namespace telar
