// Batch norms that cuDNN computes, and those that our loops compute, compared with the CPU device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "cuda/fake_engines.h"
#include "cuda/fakes.h"
#include "cuda/forget_choices.h"
#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/batch_norm.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

class CudaBatchNorm : public testing::Test {
 protected:
  void SetUp() override { fake() = {}; }
  void TearDown() override {
    EXPECT_EQ(fake().descriptors, 0);
    fake() = {};
  }
};

constexpr int64_t kImages = 3;

/// A batch norm between two convolutions, and the gradients of Σ y · weighting.
Graph graph_of(DType dtype, int64_t channels, bool activated) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {kImages, channels, 4, 5}}, false);
  const auto parameter = [&](const std::string& name, const Shape& shape) {
    return builder.parameter(name, {DType::f32, shape});
  };
  const ValueId before = conv2d(builder, x, parameter("before", {channels, channels, 1, 1}), kNoValue, {});
  const BatchNormResult normalised =
      batch_norm(builder, before, parameter("scale", {channels}), parameter("shift", {channels}), 1e-3);
  builder.output("mean", normalised.mean);
  builder.output("variance", normalised.variance);
  const ValueId behind = activated ? relu(builder, normalised.y) : normalised.y;
  const ValueId y = conv2d(builder, behind, parameter("after", {channels, channels, 1, 1}), kNoValue, {});
  builder.output("y", y);
  const ValueId weighting = builder.input("weighting", builder.type(y), false);
  builder.output("loss", reduce_sum(builder, mul(builder, y, weighting), {}));
  Graph graph = builder.build();
  if (dtype == DType::bf16) graph = mixed_precision(graph);
  return fuse_activations(differentiate(graph, graph.output("loss"), graph.of_kind(ValueKind::parameter)));
}

std::map<std::string, std::vector<float>> results_of(const Graph& graph, std::unique_ptr<Device> device) {
  GraphRun run(graph, std::move(device));
  std::map<std::string, std::vector<float>> results;
  uint64_t stream = 0;
  for (const ValueId id : graph.of_kind(ValueKind::input)) {
    const Value& value = graph.value(id);
    run.set_input(value.name, std::span<const float>(numbers(value.type.shape.elements(), ++stream)));
  }
  for (const ValueId id : graph.of_kind(ValueKind::parameter)) {
    const Value& value = graph.value(id);
    run.set_parameter(value.name, numbers(value.type.shape.elements(), ++stream));
  }
  run.run();
  for (const char* name : {"y", "mean", "variance"}) results[name] = run.output(name);
  for (const ValueId id : graph.of_kind(ValueKind::parameter))
    results["gradient of " + graph.value(id).name] = run.gradient(graph.value(id).name);
  return results;
}

/// Sets the algorithm of all batch norms from now on, as if it had been the fastest. A previous start must
/// have chosen one.
void choose_for_batch_norms(const std::string& way) {
  change_choices([&](const std::string& what, const std::string& algorithm) {
    return what.starts_with("cuDNN batch norm") ? way : algorithm;
  });
}

std::string engine() {
  return fmt::format("engine {}, {}=2000", number_of({"norm"}), static_cast<int>(CUDNN_KNOB_TYPE_WORKSPACE));
}

void expect_close(const std::map<std::string, std::vector<float>>& found,
                  const std::map<std::string, std::vector<float>>& right, double tolerance) {
  ASSERT_EQ(found.size(), right.size());
  for (const auto& [name, values] : right)
    EXPECT_LT(relative_error(found.at(name), values), tolerance) << name;
}

TEST_F(CudaBatchNorm, EqualsTheProcessorsInEitherWay) {
  for (const bool activated : {false, true}) {
    SCOPED_TRACE(activated ? "with ReLU" : "without ReLU");
    forget_choices();
    const Graph graph = graph_of(DType::bf16, 16, activated);
    const auto right = results_of(graph_of(DType::f32, 16, activated), make_cpu_device(1, {}));
    expect_close(results_of(graph, tested_device()), right, 4e-2);
    for (const std::string& way : {engine(), std::string("loops")}) {
      SCOPED_TRACE(way);
      choose_for_batch_norms(way);
      fake() = {};
      expect_close(results_of(graph, tested_device()), right, 4e-2);
      EXPECT_EQ(fake().norms_computed, way == "loops" ? 0 : 2);
      EXPECT_EQ(fake().executed.contains("norm"), way != "loops");
    }
  }
}

TEST_F(CudaBatchNorm, IsMeasuredBesideTheLoopsWithEnginesOfOneOrderAlone) {
  const GraphRun run(graph_of(DType::bf16, 16, true), tested_device());
  EXPECT_GT(fake().norms_computed, 0);
  EXPECT_TRUE(fake().executed.contains("norm"));
  EXPECT_FALSE(fake().executed.contains("norm by chance"));
}

TEST_F(CudaBatchNorm, IsOursInF32AndWhereChannelsAreOddOrCudnnHasNothing) {
  const auto norms = [](DType dtype, int64_t channels) {
    fake().norms_computed = 0;
    forget_choices();
    const Graph graph = graph_of(dtype, channels, false);
    const auto right = results_of(graph_of(DType::f32, channels, false), make_cpu_device(1, {}));
    expect_close(results_of(graph, tested_device()), right, dtype == DType::f32 ? 1e-4 : 4e-2);
    return fake().norms_computed;
  };
  EXPECT_EQ(norms(DType::f32, 16), 0);
  EXPECT_EQ(norms(DType::bf16, 12), 0);
  fake().norms = false;
  EXPECT_EQ(norms(DType::bf16, 16), 0);
}

}  // namespace
}  // namespace telar::test
