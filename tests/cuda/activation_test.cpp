#include "telar/device/cuda/loops/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/run_loop.h"

namespace telar::test {

TEST(ActivationLoops, AReluLetsNothingThroughWhereItIsZero) {
  const std::vector<float> y{0, 2, 0, 3, 0};
  const std::vector<float> dy{NAN, 5, INFINITY, -INFINITY, 1};
  std::vector<float> dx(y.size());
  const std::vector<cuda::ActivationLoop> loops = cuda::activation_loops();
  const auto relu =
      std::find_if(loops.begin(), loops.end(), [](const auto& loop) { return loop.name == "relu"; });
  ASSERT_NE(relu, loops.end());
  run_loop([&](cudaStream_t stream) {
    return relu->backward(dy.data(), y.data(), dx.data(), DType::f32, static_cast<int64_t>(y.size()), stream);
  });
  EXPECT_EQ(dx, (std::vector<float>{0, 5, 0, -INFINITY, 0}));
}

}  // namespace telar::test
