#include <gtest/gtest.h>

#include <cstdlib>

#include "ops/run_graph.h"
#include "support/paths.h"
#include "telar/device/cuda.h"

extern "C" void telar_cuda(telar::cuda::Functions& functions);

namespace telar::test {

namespace {

/// Makes the program load the fake module when it needs a GPU.
class FakeModule : public testing::Environment {
 public:
  void SetUp() override { ::setenv("TELAR_MODULES", fake_cuda_folder().c_str(), 1); }
};
const auto* const kFakeModule = testing::AddGlobalTestEnvironment(new FakeModule);

}  // namespace

/// A fake GPU.
std::unique_ptr<Device> tested_device(int /*threads*/) {
  cuda::Functions module;
  telar_cuda(module);
  return module.make_device(0);
}

}  // namespace telar::test
