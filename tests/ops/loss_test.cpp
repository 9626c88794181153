#include "telar/graph/ops/loss.h"

#include <gtest/gtest.h>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

/// The loss is the mean over 2 features of (w·a − v·b)², summed over 2 samples.
TEST(MeanSquaredError, HasGradientsForBothOfItsInputs) {
  GraphBuilder builder;
  const ValueId a = builder.input("a", {DType::f32, {2, 2}}, true);
  const ValueId b = builder.input("b", {DType::f32, {2, 2}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {2}});
  const ValueId v = builder.parameter("v", {DType::f32, {2}});
  builder.output("loss", mean_squared_error(builder, mul(builder, a, w), mul(builder, b, v)));
  const Graph forward = builder.build();
  const auto parameter = [&](const char* name) { return forward.find(ValueKind::parameter, name); };
  GraphRun run(differentiate(forward, forward.output("loss"), {parameter("w"), parameter("v")}));
  const std::vector<float> as{1, 2, 3, 4};
  const std::vector<float> bs{5, -6, 7, 8};
  run.set_input("a", std::span<const float>(as));
  run.set_input("b", std::span<const float>(bs));
  run.set_parameter("w", std::vector<float>{2, 3});
  run.set_parameter("v", std::vector<float>{0.5F, 1});
  run.run();
  // Differences: −0.5 and 12, 2.5 and 4.
  EXPECT_EQ(run.gradient("w"), (std::vector<float>{-0.5F * 1 + 2.5F * 3, 12 * 2 + 4 * 4}));
  EXPECT_EQ(run.gradient("v"), (std::vector<float>{0.5F * 5 - 2.5F * 7, 12 * 6 - 4 * 8}));
}

TEST(BatchNormInference, RefusesAMeanOrVarianceThatIsTrained) {
  for (const bool of_mean : {true, false}) {
    GraphBuilder builder;
    const ValueId x = builder.input("x", {DType::f32, {2, 3}}, true);
    const ValueId w = builder.parameter("w", {DType::f32, {3}});
    const ValueId one = constant(builder, 1, {3});
    const ValueId trained = scale(builder, w, 2);
    const ValueId y = batch_norm_inference(builder, mul(builder, x, w), one, one, of_mean ? trained : one,
                                           of_mean ? one : trained, 1e-5);
    builder.output("loss", reduce_sum(builder, y, {}));
    const Graph forward = builder.build();
    expect_error(
        [&] { differentiate(forward, forward.output("loss"), {forward.find(ValueKind::parameter, "w")}); },
        {"batch_norm_inference has no gradient for its mean"});
  }
}

}  // namespace
}  // namespace telar::test
