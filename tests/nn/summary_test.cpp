#include "telar/nn/summary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "telar/nn/dot.h"
#include "telar/nn/layers.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

TEST(Summary, MultiplyAddsEqualThosePublishedByTorchvision) {
  // "GFLOPS" in torchvision's table of models for 224×224 images; it counts a multiply-add as one operation
  const std::vector<std::pair<std::string, double>> published{
      {"alexnet", 0.714}, {"resnet18", 1.814}, {"resnet34", 3.664}, {"resnet50", 4.089}};
  for (const auto& [name, giga] : published) {
    const Summary summary = summarise(make_model(name, {}, {3, 224, 224}, 1000));
    EXPECT_NEAR(static_cast<double>(summary.multiply_adds) * 1e-9, giga, 0.0006) << name;
  }
}

TEST(Summary, RowsAddUpToTheTotals) {
  const Summary summary = summarise(make_model("resnet18", {}, {3, 64, 64}, 10));
  int64_t parameters = 0;
  int64_t multiply_adds = 0;
  for (const SummaryRow& row : summary.rows) {
    parameters += row.parameters;
    multiply_adds += row.multiply_adds;
  }
  EXPECT_EQ(parameters, summary.trained);
  EXPECT_EQ(multiply_adds, summary.multiply_adds);
  EXPECT_EQ(summary.running_statistics, 9600);  // 2 × 4,800 channels
}

TEST(Summary, FrozenValuesAreNotTrained) {
  Model model = make_model("resnet18", {}, {3, 64, 64}, 10);
  const Summary all = summarise(model);
  model.frozen = [](const std::string& name) { return !name.starts_with("fc."); };
  const Summary summary = summarise(model);
  EXPECT_EQ(summary.trained, 512 * 10 + 10);
  EXPECT_EQ(summary.frozen, all.trained + all.running_statistics - summary.trained);
  EXPECT_EQ(summary.running_statistics, 0);
}

TEST(Summary, ARowHasLayerOperationShapeAndCounts) {
  const Summary summary = summarise(make_model("lenet5", {}, {1, 28, 28}, 10));
  const SummaryRow& conv2 = summary.rows.at(3);
  EXPECT_EQ(conv2.layer, "conv2");
  EXPECT_EQ(conv2.operation, "conv2d");
  EXPECT_EQ(conv2.output, (Shape{1, 16, 10, 10}));
  EXPECT_EQ(conv2.parameters, 16 * 6 * 25 + 16);
  EXPECT_EQ(conv2.multiply_adds, 100 * 16 * 6 * 25);
}

TEST(Summary, ASharedParameterCountsOnce) {
  const Model model{"shared", {5}, DType::f32, [](ModelBuilder& m, ValueId x) {
                      return linear(m, "fc", linear(m, "fc", x, 5), 5);
                    }};
  const Summary summary = summarise(model);
  EXPECT_EQ(summary.rows[0].parameters, 30);
  EXPECT_EQ(summary.rows[1].parameters, 0);
  EXPECT_EQ(summary.trained, 30);
}

TEST(Summary, PeakBytesFollowTheLiveValues) {
  // x → a → b → c with 10 f32 each; at most two of them exist at a time
  GraphBuilder chain;
  ValueId x = chain.input("x", {DType::f32, {10}}, true);
  for (int i = 0; i < 3; ++i) x = relu(chain, x);
  chain.output("y", x);
  const Graph three = chain.build();
  EXPECT_EQ(peak_result_bytes(three), 2 * 40);
  EXPECT_EQ(kept_result_bytes(three), 40) << "each may take the place of the one before";

  GraphBuilder kept;  // the first result is used again at the end
  const ValueId first = relu(kept, kept.input("x", {DType::f32, {10}}, true));
  kept.output("y", add(kept, first, relu(kept, relu(kept, first))));
  const Graph used_again = kept.build();
  EXPECT_EQ(peak_result_bytes(used_again), 3 * 40);
  EXPECT_EQ(kept_result_bytes(used_again), 2 * 40);
}

TEST(Summary, GradientsOfParametersAreNotKeptAsResults) {
  const Model model = make_model("mlp", {}, {1, 28, 28}, 10);
  const Graph step = make_training_step(model, {.batch = 1}).gradient;
  EXPECT_LT(kept_result_bytes(step), 4 * 28 * 28 * 10) << "a batch of one sample has small results";
  EXPECT_GT(peak_result_bytes(step), 4 * 28 * 28 * 10);
}

TEST(Summary, TrainingMemoryGrowsWithTheBatch) {
  const Model model = make_model("convnet", {}, {1, 28, 28}, 10);
  const auto peak = [&](int64_t batch) {
    return static_cast<double>(peak_result_bytes(make_training_step(model, {.batch = batch}).gradient));
  };
  EXPECT_GT(peak(64), 1.8 * peak(32));
  EXPECT_GT(peak(1), 4.0 * 32 * 28 * 28 / 2);
}

TEST(Dot, DrawsOperationsInputsAndEdges) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3}}, true);
  {
    const ScopeGuard scope(builder, "a \"b\"");
    builder.output("y", relu(builder, x));
  }
  EXPECT_EQ(to_dot(builder.build()), R"(digraph telar {
  rankdir=TB;
  node [fontname="sans-serif", fontsize=10];
  v0 [shape=ellipse, label="x: f32 [2, 3]"];
  n0 [shape=box, label="a \"b\": relu → f32 [2, 3]"];
  v0 -> n0;
  out_1 [shape=ellipse, label="y"];
  n0 -> out_1;
}
)");
}

}  // namespace
}  // namespace telar
