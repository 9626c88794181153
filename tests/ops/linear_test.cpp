#include <gtest/gtest.h>

#include "ops/run_graph.h"
#include "telar/graph/ops/linear.h"

namespace telar::test {

// 192 samples and more weights than inputs: the product is computed in parts of 64 samples.
TEST(Linear, IsTheSumOfProductsInPartsOfTheBatch) {
  constexpr int64_t kSamples = 192;
  constexpr int64_t kIn = 33;
  constexpr int64_t kOut = 200;
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {kSamples, kIn}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {kOut, kIn}});
  const ValueId b = builder.parameter("b", {DType::f32, {kOut}});
  builder.output("y", linear(builder, x, w, b));
  GraphRun run(builder.build());
  const auto xs = numbers(kSamples * kIn, 1);
  const auto ws = numbers(kOut * kIn, 2);
  const auto bs = numbers(kOut, 3);
  run.set_input("x", xs);
  run.set_parameter("w", ws);
  run.set_parameter("b", bs);
  run.run();
  const std::vector<float> y = run.output("y");
  for (int64_t s = 0; s < kSamples; ++s) {
    for (int64_t o = 0; o < kOut; ++o) {
      double sum = bs[static_cast<size_t>(o)];
      for (int64_t i = 0; i < kIn; ++i) {
        sum +=
            static_cast<double>(xs[static_cast<size_t>(s * kIn + i)]) * ws[static_cast<size_t>(o * kIn + i)];
      }
      ASSERT_NEAR(y[static_cast<size_t>(s * kOut + o)], sum, 1e-4) << "sample " << s << ", feature " << o;
    }
  }
}

}  // namespace telar::test
