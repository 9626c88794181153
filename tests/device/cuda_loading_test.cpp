#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/core/module.h"
#include "telar/device/cuda.h"

namespace telar {
namespace {

TEST(CudaNames, AreGpuAndCudaWithANumber) {
  EXPECT_EQ(cuda_number("gpu"), 0);
  EXPECT_EQ(cuda_number("cuda"), 0);
  EXPECT_EQ(cuda_number("cuda:0"), 0);
  EXPECT_EQ(cuda_number("cuda:12"), 12);
  EXPECT_EQ(cuda_number("cpu:2"), std::nullopt);
  EXPECT_EQ(cuda_number("tpu"), std::nullopt);
}

TEST(CudaNames, WithoutARightNumberAreRefused) {
  test::expect_error([] { cuda_number("cuda:"); }, {"'cuda:'", "number", "cuda:0"});
  for (const char* name :
       {"cuda:-1", "cuda:x", "cuda:1x", "cuda: 1", "cuda:99999999999", "gpu0", "gpu:1", "cuda1"}) {
    test::expect_error([&] { cuda_number(name); }, {std::string("'") + name + "'", "cuda:N"});
  }
}

/// Uses an empty folder for modules.
class CudaLoading : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TELAR_MODULES", folder_.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TELAR_MODULES"); }
  test::TempFolder folder_;
};

TEST_F(CudaLoading, WithoutTheModuleTheBuildIsForProcessorsAlone) {
  test::expect_error([] { make_cuda_device(0); }, {"CPU devices only", "docs/gpu.md"});
  const CudaGpus found = find_cuda_gpus();
  EXPECT_TRUE(found.gpus.empty());
  EXPECT_TRUE(test::says(found.not_found, "CPU devices only"));
}

TEST_F(CudaLoading, AModuleThatCannotBeLoadedSaysWhy) {
  test::write_text(folder_ / "telar-cuda.so", "not a library");
  test::expect_error([] { make_cuda_device(0); },
                     {"telar-cuda cannot be loaded", "telar-cuda.so", "cuDNN 9"});
  EXPECT_TRUE(test::says(find_cuda_gpus().not_found, "cannot be loaded"));
}

TEST_F(CudaLoading, AFunctionThatAModuleLacksIsAReason) {
  EXPECT_EQ(load_module("no-such-module", "entry").reason, "");
  test::write_text(folder_ / "other.so", "");
  const LoadedModule loaded = load_module("other", "entry");
  EXPECT_EQ(loaded.entry, nullptr);
  EXPECT_NE(loaded.reason, "");
}

TEST_F(CudaLoading, AModuleThatIsCutOffSaysSo) {
  std::string beginning(5000, '\0');
  std::ifstream("/proc/self/exe", std::ios::binary).read(beginning.data(), 5000);
  test::write_text(folder_ / "other.so", beginning);
  const LoadedModule loaded = load_module("other", "entry");
  EXPECT_EQ(loaded.entry, nullptr);
  EXPECT_TRUE(test::says(loaded.reason, "other.so: the file is cut off")) << loaded.reason;
}

}  // namespace
}  // namespace telar
