#include "telar/graph/ops/batch_norm.h"

#include <gtest/gtest.h>

#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/distributed_batch_norm.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"

namespace telar::test {

namespace {

/// The gradient of gamma; with_mean: the graph also has the batch's mean, with the other sign.
std::vector<float> gamma_gradient(bool with_mean) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {6, 4}}, true);
  const ValueId gamma = builder.parameter("gamma", {DType::f32, {4}});
  const ValueId beta = builder.parameter("beta", {DType::f32, {4}});
  const BatchNormResult result = batch_norm(builder, x, gamma, beta, 1e-3);
  if (with_mean) builder.output("mean", scale(builder, result.mean, -1));
  const ValueId weights = builder.input("weights", {DType::f32, {6, 4}}, true);
  builder.output("loss", reduce_sum(builder, mul(builder, result.y, weights), {}));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"), {gamma, beta}));
  run.set_parameter("gamma", numbers(4, 1));
  run.set_parameter("beta", numbers(4, 2));
  run.set_input("x", std::span<const float>(numbers(24, 3)));
  run.set_input("weights", std::span<const float>(numbers(24, 4)));
  run.run();
  return run.gradient("gamma");
}

}  // namespace

/// The backward operation reads the mean; an operation in place must not overwrite it before.
TEST(BatchNorm, ItsMeanMayBeUsedFurther) {
  EXPECT_LT(relative_error(gamma_gradient(true), gamma_gradient(false)), 1e-6);
}

/// Of 6 values in a channel, for running averages.
TEST(BatchNorm, HasEitherVariance) {
  const auto variance = [](bool biased, bool combined) {
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {6, 4}}, true);
    const ValueId one = constant(builder, 1, {4});
    if (combined) {
      const ValueId rows = reshape(builder, batch_norm_statistics(builder, x), {1, 9});
      builder.output("variance", combine_statistics(builder, rows, biased).variance);
    } else {
      builder.output("variance", batch_norm(builder, x, one, one, 1e-3, biased).variance);
    }
    GraphRun run(builder.build());
    run.set_input("x", std::span<const float>(numbers(24, 3)));
    run.run();
    return run.output("variance");
  };
  for (const bool combined : {false, true}) {
    const std::vector<float> biased = variance(true, combined);
    const std::vector<float> unbiased = variance(false, combined);
    for (size_t c = 0; c < biased.size(); ++c) EXPECT_NEAR(biased[c], unbiased[c] * 5 / 6, 1e-6) << c;
  }
}

}  // namespace telar::test
