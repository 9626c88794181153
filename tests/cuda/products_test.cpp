// Products, linear layers and recurrent layers in cases that the operations' own tests (tests/ops) do not
// cover: without cuBLASLt's epilogues, with TF32, with invalid lengths, with one step.
#include <gtest/gtest.h>

#include "cuda/fakes.h"
#include "cuda/forget_choices.h"
#include "ops/run_graph.h"
#include "telar/device/cuda/products.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/fuse_activations.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/recurrent.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

using Results = std::map<std::string, std::vector<float>>;

class CudaProducts : public testing::Test {
 protected:
  void SetUp() override { fake() = {}; }
  void TearDown() override { fake() = {}; }
};

void expect_near(const Results& found, const Results& wanted, double tolerance) {
  for (const auto& [name, values] : wanted)
    EXPECT_LE(relative_error(found.at(name), values), tolerance) << name;
}

/// max(0, x · wᵀ + b) for 150 samples, 33 inputs and 70 outputs, and the gradients of a weighted sum of the
/// result.
Results relu_of_linear(bool bias, DType dtype, bool fused) {
  constexpr int64_t kSamples = 150;
  constexpr int64_t kIn = 33;
  constexpr int64_t kOut = 70;
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {kSamples, kIn}}, false);
  const ValueId w = builder.parameter("w", {DType::f32, {kOut, kIn}});
  const ValueId b = bias ? builder.parameter("b", {DType::f32, {kOut}}) : kNoValue;
  const ValueId y = relu(builder, linear(builder, x, w, b));
  const ValueId weights = builder.input("weights", {DType::f32, {kSamples, kOut}}, false);
  builder.output("y", y);
  builder.output("sum", reduce_sum(builder, mul(builder, y, weights), {}));
  Graph graph = builder.build();
  if (dtype == DType::bf16) graph = mixed_precision(graph);
  std::vector<ValueId> wanted{graph.find(ValueKind::input, "x"), graph.find(ValueKind::parameter, "w")};
  if (bias) wanted.push_back(graph.find(ValueKind::parameter, "b"));
  graph = differentiate(graph, graph.output("sum"), wanted);
  if (fused) graph = fuse_activations(graph);
  GraphRun run(graph);
  run.set_input("x", numbers(kSamples * kIn, 1));
  run.set_input("weights", numbers(kSamples * kOut, 2));
  run.set_parameter("w", numbers(kOut * kIn, 3));
  if (bias) run.set_parameter("b", numbers(kOut, 4));
  run.run();
  Results results{{"y", run.output("y")}, {"dx", run.output("gradient/x")}, {"dw", run.gradient("w")}};
  if (bias) results["db"] = run.gradient("b");
  return results;
}

TEST_F(CudaProducts, WithoutEpiloguesAreFollowedByLoops) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-2;
    for (const bool bias : {true, false}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + (bias ? ", bias" : ""));
      fake().epilogues = true;
      const Results apart = relu_of_linear(bias, dtype, false);
      expect_near(relu_of_linear(bias, dtype, true), apart, tolerance);
      fake().epilogues = false;
      expect_near(relu_of_linear(bias, dtype, true), apart, tolerance);
      expect_near(relu_of_linear(bias, dtype, false), apart, tolerance);
    }
  }
}

TEST_F(CudaProducts, TakeTheWayThatWorks) {
  const Results right = relu_of_linear(true, DType::f32, true);
  fake().products_that_work = 1;
  forget_choices();
  expect_near(relu_of_linear(true, DType::f32, true), right, 1e-6);
}

/// 1 · 1.0001, added to 5 if the old value is kept.
float multiplied(const cuda::ProductOptions& options) {
  cuda::Gpu gpu(0);
  cuda::Product product(gpu, cuda::matrix_product({1, 1}, false, {1, 1}, false, {1, 1}), options);
  const cuda::DeviceMemory memory(gpu, 3 * cuda::kProductAlignment);
  const cuda::DeviceMemory workspace(gpu, product.workspace());
  std::byte* a = memory.data();
  std::byte* b = a + cuda::kProductAlignment;
  std::byte* y = b + cuda::kProductAlignment;
  const auto put = [&](std::byte* to, float value) {
    cudaMemcpyAsync(to, &value, sizeof(value), cudaMemcpyHostToDevice, gpu.stream());
  };
  put(a, 1);
  put(b, 1.0001F);
  const cuda::ProductMemory operands{a, b, y, nullptr, workspace.data()};
  product.choose(operands);
  put(y, 5);
  product.run(operands);
  float result = 0;
  cudaMemcpyAsync(&result, y, sizeof(result), cudaMemcpyDeviceToHost, gpu.stream());
  gpu.wait();
  return result;
}

TEST_F(CudaProducts, RoundToTF32AndAddWhereTheyAreToldTo) {
  EXPECT_EQ(multiplied({}), 1.0001F);
  EXPECT_EQ(multiplied({.tf32 = true}), 1.0F);
  EXPECT_EQ(multiplied({.accumulate = true}), 6.0001F);
}

struct Sequence {
  int64_t samples;
  int64_t steps;
  std::vector<int32_t> lengths;  ///< empty: no lengths
};

/// Results of a recurrent layer with 7 inputs and 5 hidden units, and the gradients of a weighted sum of
/// them. The samples and weights of a step depend only on its number.
Results recurrent_layer(bool lstm, const Sequence& of) {
  constexpr int64_t kIn = 7;
  constexpr int64_t kHidden = 5;
  const int64_t rows = (lstm ? 4 : 3) * kHidden;
  const int64_t samples = of.samples;
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {samples, of.steps, kIn}}, false);
  const ValueId lengths =
      of.lengths.empty() ? kNoValue : builder.input("lengths", {DType::i32, {samples}}, false);
  const RecurrentParameters parameters{builder.parameter("ih", {DType::f32, {rows, kIn}}),
                                       builder.parameter("hh", {DType::f32, {rows, kHidden}}),
                                       builder.parameter("bias_ih", {DType::f32, {rows}}),
                                       builder.parameter("bias_hh", {DType::f32, {rows}})};
  const RecurrentResult result =
      lstm ? telar::lstm(builder, x, parameters, lengths) : telar::gru(builder, x, parameters, lengths);
  const ValueId weights = builder.input("weights", {DType::f32, {samples, of.steps, kHidden}}, false);
  builder.output("hidden", result.hidden);
  builder.output("sum", add(builder, reduce_sum(builder, mul(builder, result.y, weights), {}),
                            reduce_sum(builder, result.hidden, {})));
  std::vector<ValueId> wanted{parameters.weight_ih, parameters.weight_hh, parameters.bias_ih,
                              parameters.bias_hh};
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("sum"), wanted));
  const auto of_step = [&](int64_t width, uint64_t stream) {
    std::vector<float> values;
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t t = 0; t < of.steps; ++t)
        for (const float value : numbers(width, stream + static_cast<uint64_t>(100 * n + t)))
          values.push_back(value);
    return values;
  };
  run.set_input("x", of_step(kIn, 1000));
  run.set_input("weights", of_step(kHidden, 2000));
  if (!of.lengths.empty()) run.set_input("lengths", std::span<const int32_t>(of.lengths));
  Results results;
  const auto given = [&](const std::string& name, int64_t count, uint64_t stream) {
    run.set_parameter(name, numbers(count, stream));
  };
  given("ih", rows * kIn, 1);
  given("hh", rows * kHidden, 2);
  given("bias_ih", rows, 3);
  given("bias_hh", rows, 4);
  run.run();
  for (const char* name : {"ih", "hh", "bias_ih", "bias_hh"}) results[name] = run.gradient(name);
  results["hidden"] = run.output("hidden");
  results["sum"] = run.output("sum");
  return results;
}

TEST_F(CudaProducts, OfRecurrentLayersTakeLengthsBetweenOneAndAllSteps) {
  for (const bool lstm : {true, false}) {
    SCOPED_TRACE(lstm ? "lstm" : "gru");
    const Results right = recurrent_layer(lstm, {3, 4, {1, 4, 3}});
    expect_near(recurrent_layer(lstm, {3, 4, {0, 99, 3}}), right, 0);
    expect_near(recurrent_layer(lstm, {3, 4, {-7, 4, 3}}), right, 0);
  }
}

TEST_F(CudaProducts, OfRecurrentLayersOfOneStepAreThoseOfTheFirst) {
  for (const bool lstm : {true, false}) {
    SCOPED_TRACE(lstm ? "lstm" : "gru");
    const Results right = recurrent_layer(lstm, {3, 4, {1, 1, 1}});
    expect_near(recurrent_layer(lstm, {3, 1, {}}), right, 1e-6);
    expect_near(recurrent_layer(lstm, {3, 1, {1, 1, 1}}), right, 1e-6);
  }
}

TEST_F(CudaProducts, OfRecurrentLayersNeedNoEpilogues) {
  const Results right = recurrent_layer(true, {2, 3, {}});
  fake().epilogues = false;
  expect_near(recurrent_layer(true, {2, 3, {}}), right, 1e-6);
}

}  // namespace
}  // namespace telar::test
