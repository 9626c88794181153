#include <gtest/gtest.h>

#include <cstdlib>

#include "support/gpu_cases.h"
#include "support/paths.h"
#include "support/sentences.h"
#include "telar/device/cuda.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/stage.h"

namespace telar {
namespace {

/// Tests on a real GPU. Without one, each test is skipped with a reason.
class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::cuda_folder().empty()) ::setenv("TELAR_MODULES", test::cuda_folder().c_str(), 1);
    gpus_ = find_cuda_gpus();
    if (gpus_.gpus.empty()) GTEST_SKIP() << gpus_.not_found;
  }
  void TearDown() override { ::unsetenv("TELAR_MODULES"); }
  CudaGpus gpus_;
};

TEST_F(CudaDevice, ComputesWhatProcessorsCompute) {
  for (const test::GpuCase& given : test::gpu_cases())
    test::expect_as_on_processors(given, make_cuda_device(0));
}

TEST_F(CudaDevice, IsDescribed) {
  EXPECT_NE(gpus_.driver, "");
  for (const CudaGpu& gpu : gpus_.gpus) {
    EXPECT_NE(gpu.name, "");
    EXPECT_GT(gpu.memory, uint64_t{1} << 30);
    EXPECT_GT(gpu.multiprocessors, 0);
    EXPECT_TRUE(test::says(gpu.capability, "."));
  }
}

TEST_F(CudaDevice, OfAWrongNumberIsRefused) {
  test::expect_error([] { make_cuda_device(99); }, {"no cuda:99", "cuda:0"});
}

TEST_F(CudaDevice, RefusesWhatItCannotComputeYet) {
  GraphBuilder builder;
  builder.output("y", relu(builder, builder.input("x", {DType::f32, {2, 3}}, false)));
  pause(builder);
  const Graph graph = builder.build();
  test::expect_error([&] { make_cuda_device(0)->compile(graph, {}); }, {"cannot compute pause yet"},
                     Error::Kind::run);
}

TEST_F(CudaDevice, ThatHasTooLittleMemorySaysHowMuchWasWanted) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {1 << 20, 1 << 20}}, false);  // 4 TiB
  builder.output("y", reduce_sum(builder, x, {}));
  const Graph graph = builder.build();
  const std::unique_ptr<Device> device = make_cuda_device(0);
  const auto executable = device->compile(graph, {});
  const std::unique_ptr<Memory> memory = device->allocate(executable->activation_bytes());
  Bindings bindings;
  bindings.activations = {memory->data(), memory->size()};
  test::expect_error([&] { executable->bind(ArenaLayout::pack({}), bindings); },
                     {"not enough memory", "4194304.0 MiB"}, Error::Kind::run);
}

/// Uses the module of this build, or the one in the folder TELAR_CUDA_FOLDER of the environment
/// (scripts/test names the bundle's).
TEST(CudaModule, IsLoadedAndSaysWhyThereIsNoGpu) {
  const char* named = std::getenv("TELAR_CUDA_FOLDER");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string folder = test::cuda_folder().empty() && named != nullptr ? named : test::cuda_folder();
  if (folder.empty()) GTEST_SKIP() << "NOT TESTED: this build has no telar-cuda";
  ::setenv("TELAR_MODULES", folder.c_str(), 1);
  const CudaGpus found = find_cuda_gpus();
  if (found.gpus.empty()) {
    EXPECT_TRUE(test::says(found.not_found, "no GPU: "));
    EXPECT_EQ(test::sentence_of([] { make_cuda_device(0); }), found.not_found);
  }
  ::unsetenv("TELAR_MODULES");
}

}  // namespace
}  // namespace telar
