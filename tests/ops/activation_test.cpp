#include "telar/graph/ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

/// The formulas of PyTorch's documentation, in f64.
double formula(const std::string& name, double x) {
  if (name == "relu") return std::max(0.0, x);
  if (name == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  if (name == "tanh") return std::tanh(x);
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "gelu_tanh") {
    constexpr double kPi = 3.14159265358979323846;
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)));
  }
  if (name == "softplus") return std::log1p(std::exp(x));
  if (name == "hardswish") return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
  if (name == "elu") return x > 0 ? x : std::expm1(x);
  if (name == "leaky_relu") return x > 0 ? x : 0.01 * x;
  throw std::invalid_argument(name + " has no formula here");
}

double formula_slope(const std::string& name, double x) {
  constexpr double kStep = 1e-4;
  return (formula(name, x + kStep) - formula(name, x - kStep)) / (2 * kStep);
}

/// From −12 to 12, without 0, where the derivative of relu is a convention.
std::vector<float> points() {
  std::vector<float> x;
  for (int i = -60; i < 60; ++i) x.push_back((static_cast<float>(i) + 0.5F) / 5.0F);
  return x;
}

struct ActivationResult {
  std::vector<float> y;
  std::vector<float> dx;  ///< the derivative at each point
};

ActivationResult activated(const std::string& name, const std::vector<float>& x, bool bf16) {
  GraphBuilder builder;
  const ValueId input = builder.input("x", {DType::f32, {static_cast<int64_t>(x.size()) / 4, 4}}, true);
  const ValueId y = activation(builder, name, input);
  builder.output("y", y);
  const ValueId loss = reduce_sum(builder, y, {});
  builder.output("loss", loss);
  Graph forward = builder.build();
  if (bf16) forward = mixed_precision(forward);
  GraphRun run(differentiate(forward, forward.output("loss"), {forward.find(ValueKind::input, "x")}));
  run.set_input("x", std::span<const float>(x));
  run.run();
  return {run.output("y"), run.output("gradient/x")};
}

void expect_formula(const std::string& name, bool bf16, double tolerance) {
  const std::vector<float> x = points();
  const ActivationResult result = activated(name, x, bf16);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(result.y[i], formula(name, x[i]), tolerance * (1 + std::abs(x[i]))) << name << " of " << x[i];
    EXPECT_NEAR(result.dx[i], formula_slope(name, x[i]), tolerance * 2)
        << "the slope of " << name << " at " << x[i];
  }
}

TEST(Activation, EqualsItsFormulaAndTheSlopeOfItsFormula) {
  for (const std::string& name : activation_names()) expect_formula(name, false, 2e-6);
}

TEST(Activation, EqualsItsFormulaInBf16) {
  if (const std::string missing = bf16_missing_here(); !missing.empty()) GTEST_SKIP() << missing;
  for (const std::string& name : activation_names()) expect_formula(name, true, 1.2e-2);
}

TEST(Activation, SiluEqualsPyTorch) {
  const ActivationResult result = activated("silu", {-2, -1, 0, 3}, false);
  const std::vector<float> y{-0.2384058440F, -0.2689414214F, 0.0F, 2.8577223804F};
  const std::vector<float> dx{-0.0907842487F, 0.0723294881F, 0.5F, 1.0881041062F};
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_NEAR(result.y[i], y[i], 1e-6) << i;
    EXPECT_NEAR(result.dx[i], dx[i], 1e-6) << i;
  }
}

TEST(Activation, OfAnUnknownNameIsAnError) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 2}}, true);
  expect_error([&] { activation(builder, "swoosh", x); }, {"there is no activation 'swoosh'"},
               Error::Kind::run);
}

}  // namespace
}  // namespace telar::test
