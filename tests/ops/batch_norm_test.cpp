#include "telar/graph/ops/batch_norm.h"

#include <gtest/gtest.h>

#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/reduce.h"

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

}  // namespace telar::test
