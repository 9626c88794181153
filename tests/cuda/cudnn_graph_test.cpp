// What the graph API's wrapper reports about cuDNN itself.
#include "telar/device/cuda/cudnn_graph.h"

#include <gtest/gtest.h>

namespace telar::cuda {
namespace {

TEST(CudaCompiler, ThatCannotBeLoadedIsMissed) {
  EXPECT_EQ(lost_without_compiler("libc.so.6"), "");
  const std::string lost = lost_without_compiler("libnowhere.so.13");
  EXPECT_TRUE(lost.starts_with("libnowhere.so.13 cannot be loaded: cuDNN")) << lost;
}

}  // namespace
}  // namespace telar::cuda
