#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/run_graph.h"
#include "telar/device/cuda.h"

extern "C" void telar_cuda(telar::cuda::Functions& functions);

namespace telar::test {

namespace {

/// What the program loads when it is asked for a GPU, too.
class FakeModule : public testing::Environment {
 public:
  void SetUp() override { ::setenv("TELAR_MODULES", TELAR_FAKE_CUDA, 1); }
};
const auto* const kFakeModule = testing::AddGlobalTestEnvironment(new FakeModule);

}  // namespace

/// What stands for a GPU.
std::unique_ptr<Device> tested_device(int /*threads*/) {
  cuda::Functions module;
  telar_cuda(module);
  return module.make_device(0);
}

}  // namespace telar::test
