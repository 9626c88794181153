#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "ops/op_case.h"
#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/math.h"
#include "telar/graph/ops/pooling.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/softmax.h"

namespace telar::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

GraphRun run_of(const Graph& graph) { return {graph, tested_device(), Accumulation::overwrite, false, true}; }

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// --- Functions element by element.

/// PyTorch's results for NaN, ∞ and −∞, and the derivative at NaN. Where PyTorch has NaN for an infinity
/// although the function has a limit, as gelu(−∞), the limit is right, too.
struct Function {
  std::string name;
  std::function<ValueId(GraphBuilder&, ValueId)> build;
  float above = 0;
  float below = 0;
  float slope_of_nan = kNan;
  bool nan_below = false;  ///< PyTorch's at −∞
};

std::vector<Function> functions() {
  const auto activated = [](const std::string& name) {
    return [name](GraphBuilder& b, ValueId x) { return activation(b, name, x); };
  };
  const auto power = [](double exponent) {
    return [exponent](GraphBuilder& b, ValueId x) { return pow(b, x, exponent); };
  };
  const float half_pi = std::atan(kInf);
  return {{"relu", activated("relu"), kInf, 0, 1},
          {"gelu", activated("gelu"), kInf, 0, kNan, true},
          {"sigmoid", activated("sigmoid"), 1, 0},
          {"tanh", activated("tanh"), 1, -1},
          {"silu", activated("silu"), kInf, 0, kNan, true},
          {"gelu_tanh", activated("gelu_tanh"), kInf, 0, kNan, true},
          {"softplus", activated("softplus"), kInf, 0},
          {"hardswish", activated("hardswish"), kInf, 0, kNan, true},
          {"elu", activated("elu"), kInf, -1},
          {"leaky_relu", activated("leaky_relu"), kInf, -kInf, 0.01F},
          {"relu6", [](GraphBuilder& b, ValueId x) { return clamp(b, x, 0, 6); }, 6, 0, 0},
          {"exp", [](GraphBuilder& b, ValueId x) { return exp(b, x); }, kInf, 0},
          {"log", [](GraphBuilder& b, ValueId x) { return log(b, x); }, kInf, kNan},
          {"sin", [](GraphBuilder& b, ValueId x) { return sin(b, x); }, kNan, kNan},
          {"cos", [](GraphBuilder& b, ValueId x) { return cos(b, x); }, kNan, kNan},
          {"atan", [](GraphBuilder& b, ValueId x) { return atan(b, x); }, half_pi, -half_pi},
          {"erf", [](GraphBuilder& b, ValueId x) { return erf(b, x); }, 1, -1},
          {"log1p", [](GraphBuilder& b, ValueId x) { return log1p(b, x); }, kInf, kNan},
          {"expm1", [](GraphBuilder& b, ValueId x) { return expm1(b, x); }, kInf, -1},
          {"pow 0.5", power(0.5), kInf, kNan},
          {"pow -1", power(-1), 0, -0.0F},
          {"pow 2", power(2), kInf, kInf},
          {"pow 3", power(3), kInf, -kInf},
          {"pow 1.5", power(1.5), kInf, kInf}};
}

struct Computed {
  std::vector<float> y;
  std::vector<float> dx;
};

Computed computed(const Function& function, const std::vector<float>& x) {
  GraphBuilder builder;
  const ValueId input = builder.input("x", {DType::f32, {static_cast<int64_t>(x.size())}}, true);
  const ValueId y = function.build(builder, input);
  builder.output("y", y);
  builder.output("loss", reduce_sum(builder, y, {}));
  const Graph forward = builder.build();
  GraphRun run =
      run_of(differentiate(forward, forward.output("loss"), {forward.find(ValueKind::input, "x")}));
  run.set_input("x", std::span<const float>(x));
  run.run();
  return {run.output("y"), run.output("gradient/x")};
}

TEST(NonFinite, FunctionsHavePyTorchsValues) {
  for (const Function& function : functions()) {
    std::vector<float> x(37, 0.75F);
    const Computed finite = computed(function, x);
    x[0] = x[19] = x[36] = kNan;
    x[3] = x[20] = x[33] = kInf;
    x[7] = x[21] = x[35] = -kInf;
    const Computed found = computed(function, x);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool below = x[i] == -kInf;
      const float expected = std::isnan(x[i]) ? kNan
                             : below          ? function.below
                             : x[i] == kInf   ? function.above
                                              : finite.y[i];
      EXPECT_TRUE(same(found.y[i], expected) || (below && function.nan_below && std::isnan(found.y[i])))
          << function.name << " of " << x[i] << " at " << i << " is " << found.y[i];
      if (std::isfinite(x[i])) {
        EXPECT_EQ(found.dx[i], finite.dx[i]) << function.name << " at " << i;
      } else if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(found.dx[i]) || same(found.dx[i], function.slope_of_nan))
            << function.name << ": " << found.dx[i];
      }
    }
  }
}

// --- All operations.

class Operation : public ::testing::TestWithParam<std::string> {};

/// The outputs of a case, one after the other, when element i of a tensor has another value.
class Perturbed {
 public:
  explicit Perturbed(const OpCase& given)
      : given_(given), graph_(build_case(given, Mode::f32)), run_(run_of(graph_)) {
    for (const ValueId id : graph_.of_kind(ValueKind::input)) {
      const Value& value = graph_.value(id);
      const auto count = static_cast<size_t>(value.type.shape.elements());
      if (value.type.dtype == DType::i32) {
        const auto& floats = given.tensors.at(value.name).data;
        run_.set_input(value.name,
                       std::span<const int32_t>(std::vector<int32_t>(floats.begin(), floats.end())));
      } else {
        const bool known = given.tensors.contains(value.name);
        give(value.name, known ? given.tensors.at(value.name).data : std::vector<float>(count, 1.0F));
      }
    }
    for (const std::string& name : given.parameters) give(name, given.tensors.at(name).data);
  }

  std::vector<float> outputs(const std::string& name, size_t i, float value) {
    std::vector<float> values = given_.tensors.at(name).data;
    values[i] = value;
    give(name, values);
    run_.run();
    give(name, given_.tensors.at(name).data);
    std::vector<float> all;
    for (const std::string& output : given_.outputs) {
      const std::vector<float> of_one = run_.output(output);
      all.insert(all.end(), of_one.begin(), of_one.end());
    }
    return all;
  }

 private:
  void give(const std::string& name, const std::vector<float>& values) {
    const bool parameter = std::ranges::find(given_.parameters, name) != given_.parameters.end();
    if (parameter) run_.set_parameter(name, values);
    if (!parameter) run_.set_input(name, std::span<const float>(values));
  }

  const OpCase& given_;
  Graph graph_;
  GraphRun run_;
};

TEST_P(Operation, WhatDependsOnANaNIsNaN) {
  const OpCase& given = op_case(GetParam());
  if (given.op == "top_k_correct") GTEST_SKIP() << "a number of samples is never NaN";
  std::vector<std::string> names = given.parameters;
  names.insert(names.end(), given.inputs.begin(), given.inputs.end());
  Perturbed perturbed(given);
  for (const std::string& name : names) {
    if (name == "label" || name == "tokens" || name == "lengths") continue;
    const size_t i = given.tensors.at(name).data.size() / 2;
    const std::vector<float> large = perturbed.outputs(name, i, 100);
    const std::vector<float> small = perturbed.outputs(name, i, -100);
    const std::vector<float> found = perturbed.outputs(name, i, kNan);
    for (size_t j = 0; j < found.size(); ++j)
      EXPECT_TRUE(std::isnan(found[j]) || large[j] == small[j])
          << given.name << ": element " << j << " is " << found[j] << " although '" << name << "' has a NaN";
  }
}

std::string case_name(const ::testing::TestParamInfo<std::string>& which) {
  std::string name = which.param;
  std::replace(name.begin(), name.end(), '-', 'm');
  return name;
}

INSTANTIATE_TEST_SUITE_P(NonFiniteCases, Operation, ::testing::ValuesIn(op_case_names()), case_name);

// --- Operations that choose.

TEST(NonFinite, TheLargestOfAWindowIsItsNaNAndMayBeMinusInfinity) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {1, 1, 2, 6}}, true);
  const ValueId y = max_pool(builder, x, {});
  builder.output("y", y);
  builder.output("loss", reduce_sum(builder, y, {}));
  const Graph forward = builder.build();
  GraphRun run =
      run_of(differentiate(forward, forward.output("loss"), {forward.find(ValueKind::input, "x")}));
  const std::vector<float> values{1, kNan, -kInf, -kInf, 1, kInf, 2, 3, -kInf, -kInf, 2, 3};
  run.set_input("x", std::span<const float>(values));
  run.run();
  const std::vector<float> largest = run.output("y");
  EXPECT_TRUE(std::isnan(largest[0]));
  EXPECT_EQ(largest[1], -kInf);
  EXPECT_EQ(largest[2], kInf);
  EXPECT_EQ(run.output("gradient/x"), (std::vector<float>{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(NonFinite, TheLargestOfAnAxisIsItsNaNAndMayBeMinusInfinity) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {3, 3}}, true);
  builder.output("y", reduce_max(builder, x, {1}, false));
  GraphRun run = run_of(builder.build());
  const std::vector<float> values{3, kNan, 1, -kInf, -kInf, -kInf, 1, kInf, 2};
  run.set_input("x", std::span<const float>(values));
  run.run();
  const std::vector<float> y = run.output("y");
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], -kInf);
  EXPECT_EQ(y[2], kInf);
}

TEST(NonFinite, SoftmaxOfMaskedPositionsIsZeroThere) {
  GraphBuilder builder;
  builder.output("y", softmax(builder, builder.input("x", {DType::f32, {3, 2}}, true), 1));
  GraphRun run = run_of(builder.build());
  const std::vector<float> values{-kInf, 1, -kInf, -kInf, kInf, 0};
  run.set_input("x", std::span<const float>(values));
  run.run();
  const std::vector<float> y = run.output("y");
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 1);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
}

TEST(NonFinite, AClassWithANaNIsNeverRight) {
  GraphBuilder builder;
  const ValueId logits = builder.input("logits", {DType::f32, {4, 3}}, true);
  const ValueId label = builder.input("label", {DType::i32, {4}}, true);
  builder.output("correct", top_k_correct(builder, logits, label, 1));
  GraphRun run = run_of(builder.build());
  const std::vector<float> values{kNan, kNan, kNan, 3, kNan, 1, kNan, 1, 2, 1, 3, 2};
  const std::vector<int32_t> labels{0, 0, 0, 1};
  run.set_input("logits", std::span<const float>(values));
  run.set_input("label", std::span<const int32_t>(labels));
  run.run();
  EXPECT_EQ(run.output("correct"), std::vector<float>{1});
}

}  // namespace
}  // namespace telar::test
