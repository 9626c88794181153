#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "ops/run_graph.h"
#include "telar/device/cpu/team.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/dropout.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {

namespace {

using Build = std::function<ValueId(GraphBuilder&, ValueId)>;

struct Results {
  std::vector<float> y, gradient;
};

/// Computes y and the gradient of Σ y² with respect to x.
/// Shapes must be large enough that the kernels use all threads.
Results run_on(int threads, const Shape& shape, const Build& build, std::span<const float> x_values) {
  GraphBuilder builder;
  const ValueId x = builder.parameter("x", {DType::f32, shape});
  const ValueId y = build(builder, x);
  builder.output("y", y);
  const ValueId loss = reduce_sum(builder, mul(builder, y, y), {});
  const Graph graph = differentiate(builder.build(), loss, {x});
  GraphRun run(graph, Accumulation::overwrite, threads);
  run.set_parameter("x", x_values);
  if (graph.has(ValueKind::input, "tokens")) {
    std::vector<int32_t> tokens(3000);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % 90);
    run.set_input("tokens", std::span<const int32_t>(tokens));
  }
  if (graph.has(ValueKind::input, "sample")) {
    std::vector<int32_t> samples(2 * static_cast<size_t>(shape[0]));
    std::iota(samples.begin(), samples.end(), 100);
    run.set_input("sample", std::span<const int32_t>(samples));
    const std::vector<int32_t> random{1, 2, 3, 0};
    run.set_input("random", std::span<const int32_t>(random));
  }
  run.run();
  return {run.output("y"), run.gradient("x")};
}

void expect_same_on_any_team(const Shape& shape, const Build& build) {
  const auto x = numbers(shape.elements(), 2);
  const Results one = run_on(1, shape, build, x);
  for (const int threads : {2, 3, 5}) {
    const Results several = run_on(threads, shape, build, x);
    EXPECT_EQ(several.y, one.y) << threads << " threads";
    EXPECT_EQ(several.gradient, one.gradient) << threads << " threads";
  }
}

class AnyNumberOfThreads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (omp_get_thread_limit() < 5) GTEST_SKIP() << "OMP_THREAD_LIMIT allows fewer than 5 threads";
  }
};

}  // namespace

TEST_F(AnyNumberOfThreads, GivesTheSameDropout) {
  expect_same_on_any_team({64, 1001}, [](GraphBuilder& builder, ValueId x) {
    const ValueId sample = builder.input("sample", {DType::i32, {64, 2}}, true);
    return dropout(builder, x, 0.25, sample, builder.input("random", {DType::i32, {4}}, false));
  });
}

TEST_F(AnyNumberOfThreads, GivesTheSameEmbedding) {
  expect_same_on_any_team({90, 50}, [](GraphBuilder& builder, ValueId table) {
    return embedding(builder, builder.input("tokens", {DType::i32, {100, 30}}, true), table);
  });
}

TEST_F(AnyNumberOfThreads, GivesTheSameReductions) {
  const Shape shape{16, 70, 61};
  const auto x = numbers(shape.elements(), 2);
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{1}, {2}, {1, 2}, {0}, {0, 1, 2}}) {
    for (const auto& reduce : {reduce_sum, reduce_mean, reduce_max}) {
      const Build build = [&](GraphBuilder& builder, ValueId value) {
        return reduce(builder, value, axes, false);
      };
      const Results one = run_on(1, shape, build, x);
      const Results three = run_on(3, shape, build, x);
      EXPECT_LT(relative_error(three.y, one.y), 1e-6);
      EXPECT_LT(relative_error(three.gradient, one.gradient), 1e-6);
    }
  }
}

TEST_F(AnyNumberOfThreads, SumsAWholeTensorInOneOrder) {
  const Shape shape{7, 89, 61};
  const auto x = numbers(shape.elements(), 2);
  const Build build = [](GraphBuilder& builder, ValueId value) {
    return reduce_sum(builder, value, {}, false);
  };
  const Results one = run_on(1, shape, build, x);
  double sum = 0;
  for (const float value : x) sum += value;
  EXPECT_NEAR(one.y.at(0), sum, 1e-2);
  EXPECT_EQ(run_on(2, shape, build, x).y, one.y);
  EXPECT_EQ(run_on(3, shape, build, x).y, one.y);
}

TEST_F(AnyNumberOfThreads, CountsEveryTieOfAMaximum) {
  const Shape shape{8192, 33};
  auto x = numbers(shape.elements(), 2);
  for (float& value : x)
    value = value > 0 ? 1.0F : 0.0F;  // about 4,096 elements of each column are its maximum
  const Build build = [](GraphBuilder& builder, ValueId value) { return reduce_max(builder, value, {0}); };
  const Results result = run_on(3, shape, build, x);
  for (size_t column = 0; column < 33; ++column) {
    double sum = 0;
    for (size_t row = 0; row < 8192; ++row) sum += result.gradient[row * 33 + column];
    EXPECT_NEAR(sum, 2.0, 1e-4);  // the gradient of y² at y = 1
  }
}

/// The gradients of Σ y² with respect to the weights and the bias of a layer, y = layer(x, w, b).
struct LayerCase {
  const char* name;
  Shape x, w;
  std::function<ValueId(GraphBuilder&, ValueId, ValueId, ValueId)> layer;
};

std::vector<std::vector<float>> gradients_on(int threads, const LayerCase& c, bool bf16) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, c.x}, true);
  const ValueId w = builder.parameter("w", {DType::f32, c.w});
  const ValueId b = builder.parameter("b", {DType::f32, {c.w[0]}});
  const ValueId y = c.layer(builder, x, w, b);
  builder.output("loss", reduce_sum(builder, mul(builder, y, y), {}));
  Graph forward = builder.build();
  if (bf16) forward = mixed_precision(forward);
  const std::vector<ValueId> wanted{forward.find(ValueKind::parameter, "w"),
                                    forward.find(ValueKind::parameter, "b")};
  GraphRun run(differentiate(forward, forward.output("loss"), wanted), Accumulation::overwrite, threads);
  const auto x_values = numbers(c.x.elements(), 1);
  run.set_input("x", std::span<const float>(x_values));
  run.set_parameter("w", numbers(c.w.elements(), 2));
  run.set_parameter("b", numbers(c.w[0], 3));
  run.run();
  return {run.gradient("w"), run.gradient("b")};
}

// With AVX-512, threads compute parts of these gradients: some outputs, some inputs, or some samples.
TEST_F(AnyNumberOfThreads, GivesTheGradientsOfWeights) {
  const auto dense = [](GraphBuilder& builder, ValueId x, ValueId w, ValueId b) {
    return linear(builder, x, w, b);
  };
  const auto convolution = [](const Conv2dOptions& options) {
    return [options](GraphBuilder& builder, ValueId x, ValueId w, ValueId b) {
      return conv2d(builder, x, w, b, options);
    };
  };
  const std::vector<LayerCase> cases{
      {"outputs", {32, 784}, {256, 784}, dense},
      {"inputs", {32, 256}, {10, 256}, dense},
      {"blocks that are not full", {33, 70}, {350, 70}, dense},
      {"an image", {64, 1, 28, 28}, {32, 1, 3, 3}, convolution({.padding_h = 1, .padding_w = 1})},
      {"channels, parts of unequal size", {21, 16, 12, 10}, {32, 16, 3, 3}, convolution({.stride_h = 2})},
      {"groups", {12, 16, 9, 9}, {32, 8, 3, 3}, convolution({.padding_h = 1, .padding_w = 1, .groups = 2})},
      {"few taps that meet the image",
       {64, 32, 1, 1},
       {32, 32, 3, 3},
       convolution({.padding_h = 1, .padding_w = 1})}};
  for (const bool bf16 : {false, true}) {
    if (bf16 && !bf16_missing_here().empty()) continue;
    for (const LayerCase& c : cases) {
      const auto one = gradients_on(1, c, bf16);
      for (const int threads : {2, 3, 5}) {
        const auto several = gradients_on(threads, c, bf16);
        EXPECT_LT(relative_error(several[0], one[0]), 1e-5) << c.name << ", " << threads << " threads";
        EXPECT_LT(relative_error(several[1], one[1]), 1e-5) << c.name << ", " << threads << " threads";
      }
    }
  }
}

TEST(ThreadsOfOneDnn, AreThoseOfTheTeam) {
  if (omp_get_thread_limit() < 2) GTEST_SKIP() << "OMP_THREAD_LIMIT allows only one thread";
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, Shape({256, 256})}, true);
  const ValueId weight = builder.parameter("weight", {DType::f32, Shape({256, 256})});
  builder.output("y", linear(builder, x, weight, kNoValue));
  GraphRun run(builder.build(), Accumulation::overwrite, 2);
  const std::vector<float> ones(size_t{256} * 256, 1.0F);
  run.set_input("x", std::span<const float>(ones));
  run.set_parameter("weight", ones);
  const uint64_t before = cpu::Team::of_this_thread().regions();
  run.run();
  EXPECT_GT(cpu::Team::of_this_thread().regions(), before);
  EXPECT_EQ(run.output("y")[0], 256.0F);
}

}  // namespace telar::test
