#include "telar/graph/ops/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/whole_numbers.h"

namespace telar::test {
namespace {

/// Labels of the batch are checked before a step; these are computed in the graph.
TEST(CrossEntropy, NamesALabelThatIsNoClass) {
  if (!tested_device()->in_host_memory())
    GTEST_SKIP() << "a GPU cannot throw while it computes: there the loss is NaN (tests/cuda/loops_test.cpp)";
  for (const float wrong : {3.0F, -1.0F}) {
    GraphBuilder builder;
    const ValueId logits = builder.input("logits", {DType::f32, {2, 3}}, true);
    const ValueId labels = to_indices(builder, builder.input("labels", {DType::f32, {2}}, true));
    builder.output("loss", cross_entropy(builder, logits, labels, 0));
    GraphRun run(builder.build());
    const std::vector<float> numbers_of_classes(6, 0.5F);
    const std::vector<float> given{2, wrong};
    run.set_input("logits", std::span<const float>(numbers_of_classes));
    run.set_input("labels", std::span<const float>(given));
    expect_error([&] { run.run(); },
                 {"label " + std::to_string(static_cast<int>(wrong)) + " of row 1; there are 3 classes"});
  }
}

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

struct RowLosses {
  std::vector<float> losses;
  std::vector<float> gradient;
};

/// Of rows of 3 logits: their losses, and the gradient of the losses' weighted sum.
RowLosses weighted_rows(std::span<const float> logits, std::span<const int32_t> labels,
                        std::span<const float> weights) {
  const auto rows = static_cast<int64_t>(labels.size());
  GraphBuilder builder;
  const ValueId x = builder.parameter("x", {DType::f32, {rows, 3}});
  const ValueId label = builder.input("label", {DType::i32, {rows}}, true);
  const ValueId weight = builder.input("weight", {DType::f32, {rows}}, true);
  const ValueId each = cross_entropy_of_rows(builder, x, label, 0.1);
  builder.output("each", each);
  builder.output("loss", reduce_sum(builder, mul(builder, each, weight), {}));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"), {x}));
  run.set_input("label", labels);
  run.set_input("weight", weights);
  run.set_parameter("x", logits);
  run.run();
  return {run.output("each"), run.gradient("x")};
}

/// Of one row: the cross-entropy and its gradient.
RowLosses one_row(std::span<const float> logits, int32_t of) {
  GraphBuilder builder;
  const ValueId x = builder.parameter("x", {DType::f32, {1, 3}});
  const ValueId label = builder.input("label", {DType::i32, {1}}, true);
  builder.output("loss", cross_entropy(builder, x, label, 0.1));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"), {x}));
  run.set_input("label", std::span<const int32_t>(&of, 1));
  run.set_parameter("x", logits);
  run.run();
  return {run.output("loss"), run.gradient("x")};
}

// Of 37 classes, which are no multiple of the elements that are computed together.
TEST(CrossEntropy, OfManyClassesIsThatOfDoubles) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kClasses = 37;
  GraphBuilder builder;
  const ValueId x = builder.parameter("x", {DType::f32, {kRows, kClasses}});
  const ValueId label = builder.input("label", {DType::i32, {kRows}}, true);
  builder.output("loss", cross_entropy(builder, x, label, 0));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"), {x}));
  std::vector<float> logits = numbers(kRows * kClasses, 7);
  for (float& logit : logits) logit *= 3;
  logits[3] = -std::numeric_limits<float>::infinity();  // a class that is left out
  const std::vector<int32_t> labels{0, 36, 15, 16, 32};
  run.set_input("label", std::span<const int32_t>(labels));
  run.set_parameter("x", logits);
  run.run();
  const std::vector<float> gradient = run.gradient("x");
  double loss = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const float* of_row = logits.data() + row * kClasses;
    double sum = 0;
    for (int64_t c = 0; c < kClasses; ++c) sum += std::exp(static_cast<double>(of_row[c]));
    loss += std::log(sum) - of_row[labels[static_cast<size_t>(row)]];
    for (int64_t c = 0; c < kClasses; ++c) {
      const double own = c == labels[static_cast<size_t>(row)] ? 1 : 0;
      ASSERT_NEAR(gradient[static_cast<size_t>(row * kClasses + c)],
                  std::exp(static_cast<double>(of_row[c])) / sum - own, 2e-6)
          << "row " << row << ", class " << c;
    }
  }
  EXPECT_NEAR(run.output("loss")[0], loss, 1e-5 * loss);
}

TEST(CrossEntropyOfRows, IsTheCrossEntropyOfEachRow) {
  if (!tested_device()->in_host_memory()) GTEST_SKIP() << "GPUs do not have it";
  const std::vector<float> logits{1, -2, 0.5F, 3, 0, -1};
  const std::vector<int32_t> labels{2, 0};
  const std::vector<float> weights{0.25F, -3};
  const RowLosses together = weighted_rows(logits, labels, weights);
  for (size_t row = 0; row < 2; ++row) {
    const RowLosses alone = one_row(std::span(logits).subspan(3 * row, 3), labels[row]);
    EXPECT_FLOAT_EQ(together.losses[row], alone.losses[0]);
    for (size_t c = 0; c < 3; ++c)
      EXPECT_NEAR(together.gradient[3 * row + c], weights[row] * alone.gradient[c], 1e-6);
  }
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
