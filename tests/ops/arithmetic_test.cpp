#include <gtest/gtest.h>

#include <algorithm>

#include "ops/run_graph.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/conv2d.h"

namespace telar::test {

// Convolutions write channels in blocks.
// If the channels do not fill the last block, its padding must not affect the result.
TEST(Addition, FusesWithReluForAnyNumberOfChannels) {
  for (const int64_t channels : {1, 8, 12, 16, 20, 33}) {
    const auto graph = [&](bool rectified) {
      GraphBuilder builder;
      const ValueId x = builder.input("x", {DType::f32, {2, 3, 7, 7}}, true);
      const ValueId a =
          conv2d(builder, x, builder.parameter("a", {DType::f32, {channels, 3, 3, 3}}), kNoValue, {});
      const ValueId b =
          conv2d(builder, x, builder.parameter("b", {DType::f32, {channels, 3, 3, 3}}), kNoValue, {});
      const ValueId sum = add(builder, a, b);
      builder.output("y", rectified ? relu(builder, sum) : sum);
      return fuse_activations(builder.build());
    };
    const auto result = [&](bool rectified) {
      GraphRun run(graph(rectified));
      run.set_input("x", numbers(2 * 3 * 49, 1));
      run.set_parameter("a", numbers(channels * 27, 2));
      run.set_parameter("b", numbers(channels * 27, 3));
      run.run();
      return run.output("y");
    };
    std::vector<float> right = result(false);
    for (float& value : right) value = std::max(value, 0.0F);
    EXPECT_EQ(relative_error(result(true), right), 0) << channels << " channels";
  }
}

}  // namespace telar::test
