#include "ops/run_graph.h"
#include "telar/device/cuda.h"

extern "C" void telar_cuda(telar::cuda::Functions& functions);

namespace telar::test {

/// What stands for a GPU.
std::unique_ptr<Device> tested_device(int /*threads*/) {
  cuda::Functions module;
  telar_cuda(module);
  return module.make_device(0);
}

}  // namespace telar::test
