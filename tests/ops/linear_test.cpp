#include <gtest/gtest.h>

#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/reduce.h"

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

// From 256 samples on, the gradient of the weights is a matrix product, that of the bias a sum of columns.
TEST(Linear, HasTheGradientsOfManySamples) {
  constexpr int64_t kSamples = 300;
  constexpr int64_t kIn = 33;
  constexpr int64_t kOut = 70;
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {kSamples, kIn}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {kOut, kIn}});
  const ValueId b = builder.parameter("b", {DType::f32, {kOut}});
  const ValueId weights = builder.input("weights", {DType::f32, {kSamples, kOut}}, true);
  builder.output("loss", reduce_sum(builder, mul(builder, linear(builder, x, w, b), weights), {}));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"), {w, b}));
  const auto xs = numbers(kSamples * kIn, 1);
  const auto dys = numbers(kSamples * kOut, 4);
  run.set_input("x", xs);
  run.set_input("weights", dys);
  run.set_parameter("w", numbers(kOut * kIn, 2));
  run.set_parameter("b", numbers(kOut, 3));
  run.run();
  const std::vector<float> dw = run.gradient("w");
  const std::vector<float> db = run.gradient("b");
  for (int64_t o = 0; o < kOut; ++o) {
    double sum = 0;
    std::vector<double> products(kIn, 0);
    for (int64_t s = 0; s < kSamples; ++s) {
      const double dy = dys[static_cast<size_t>(s * kOut + o)];
      sum += dy;
      for (int64_t i = 0; i < kIn; ++i)
        products[static_cast<size_t>(i)] += dy * xs[static_cast<size_t>(s * kIn + i)];
    }
    EXPECT_NEAR(db[static_cast<size_t>(o)], sum, 1e-4) << "feature " << o;
    for (int64_t i = 0; i < kIn; ++i)
      ASSERT_NEAR(dw[static_cast<size_t>(o * kIn + i)], products[static_cast<size_t>(i)], 1e-4)
          << "feature " << o << ", input " << i;
  }
}

}  // namespace telar::test
