#include "telar/graph/ops/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/constant.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

struct MathCase {
  std::string name;
  std::function<ValueId(GraphBuilder&, ValueId)> build;
  std::function<double(double)> value;
  std::function<double(double)> slope;  ///< as in PyTorch at the limits of clamp
  std::vector<float> points;
};

std::vector<MathCase> math_cases() {
  const std::vector<float> around{-7.5F, -3, -1.25F, -0.5F, 0, 0.25F, 1, 2.5F, 6, 7};
  const std::vector<float> above{0.001F, 0.125F, 0.5F, 1, 1.5F, 3, 20, 1000};
  const std::vector<float> circle{-1000, -7.5F, -3.1415927F, -0.5F, 0, 0.25F, 1.5707964F, 6, 100, 12345};
  const auto power = [&](double p, const std::vector<float>& points) {
    return MathCase{"pow " + std::to_string(p), [p](GraphBuilder& b, ValueId x) { return pow(b, x, p); },
                    [p](double x) { return std::pow(x, p); },
                    [p](double x) { return p * std::pow(x, p - 1); }, points};
  };
  const auto within_0_6 = [](double x) { return x >= 0 && x <= 6 ? 1.0 : 0.0; };
  return {{"exp", [](GraphBuilder& b, ValueId x) { return exp(b, x); }, [](double x) { return std::exp(x); },
           [](double x) { return std::exp(x); }, around},
          {"log", [](GraphBuilder& b, ValueId x) { return log(b, x); }, [](double x) { return std::log(x); },
           [](double x) { return 1 / x; }, above},
          {"sin", [](GraphBuilder& b, ValueId x) { return sin(b, x); }, [](double x) { return std::sin(x); },
           [](double x) { return std::cos(x); }, circle},
          {"cos", [](GraphBuilder& b, ValueId x) { return cos(b, x); }, [](double x) { return std::cos(x); },
           [](double x) { return -std::sin(x); }, circle},
          {"atan", [](GraphBuilder& b, ValueId x) { return atan(b, x); },
           [](double x) { return std::atan(x); }, [](double x) { return 1 / (1 + x * x); }, circle},
          {"erf", [](GraphBuilder& b, ValueId x) { return erf(b, x); }, [](double x) { return std::erf(x); },
           [](double x) { return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); }, around},
          {"log1p", [](GraphBuilder& b, ValueId x) { return log1p(b, x); },
           [](double x) { return std::log1p(x); }, [](double x) { return 1 / (1 + x); }, above},
          {"expm1", [](GraphBuilder& b, ValueId x) { return expm1(b, x); },
           [](double x) { return std::expm1(x); }, [](double x) { return std::exp(x); }, around},
          {"floor", [](GraphBuilder& b, ValueId x) { return add(b, x, floor(b, x)); },
           [](double x) { return x + std::floor(x); }, [](double) { return 1.0; }, around},
          {"round", [](GraphBuilder& b, ValueId x) { return add(b, x, round(b, x)); },
           [](double x) { return x + std::nearbyint(x); }, [](double) { return 1.0; }, around},
          {"pow 0", [](GraphBuilder& b, ValueId x) { return pow(b, x, 0); }, [](double) { return 1.0; },
           [](double) { return 0.0; }, around},
          power(2, around),
          power(3, around),
          power(0.5, above),
          power(-1, above),
          power(-0.5, above),
          {"clamp", [](GraphBuilder& b, ValueId x) { return clamp(b, x, 0, 6); },
           [](double x) { return std::min(std::max(x, 0.0), 6.0); }, within_0_6, around},
          {"within", [](GraphBuilder& b, ValueId x) { return add(b, x, within(b, x, 0, 6)); },
           [](double x) { return x + (x >= 0 && x <= 6 ? 1.0 : 0.0); }, [](double) { return 1.0; }, around}};
}

TEST(Math, EachFunctionAndItsSlopeEqualTheFormula) {
  for (const MathCase& math : math_cases()) {
    GraphBuilder builder;
    const auto count = static_cast<int64_t>(math.points.size());
    const ValueId x = builder.input("x", {DType::f32, {count}}, true);
    const ValueId y = math.build(builder, x);
    builder.output("y", y);
    builder.output("loss", reduce_sum(builder, y, {}));
    const Graph forward = builder.build();
    GraphRun run(differentiate(forward, forward.output("loss"), {x}));
    run.set_input("x", std::span<const float>(math.points));
    run.run();
    const std::vector<float> values = run.output("y");
    const std::vector<float> slopes = run.output("gradient/x");
    for (size_t i = 0; i < math.points.size(); ++i) {
      const double value = math.value(math.points[i]);
      const double slope = math.slope(math.points[i]);
      EXPECT_NEAR(values[i], value, 2e-6 * (1 + std::abs(value))) << math.name << " of " << math.points[i];
      EXPECT_NEAR(slopes[i], slope, 4e-6 * (1 + std::abs(slope))) << math.name << " at " << math.points[i];
    }
  }
}

std::vector<float> logarithms_of(const std::vector<float>& points) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {static_cast<int64_t>(points.size())}}, true);
  builder.output("y", log(builder, x));
  GraphRun run(builder.build());
  run.set_input("x", std::span<const float>(points));
  run.run();
  return run.output("y");
}

TEST(Math, TheLogarithmIsRightToItsLastPlaces) {
  std::vector<float> points;
  for (double x = 1e-44; x < 3e38; x *= 1.003) points.push_back(static_cast<float>(x));
  for (int i = -2000; i <= 2000; ++i) points.push_back(1 + static_cast<float>(i) * 0x1.0p-15F);
  const std::vector<float> values = logarithms_of(points);
  for (size_t i = 0; i < points.size(); ++i) {
    const double right = std::log(static_cast<double>(points[i]));
    EXPECT_NEAR(values[i], right, 2.5e-7 * std::abs(right)) << points[i];
  }
}

TEST(Math, TheLogarithmOfZeroIsInfinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values = logarithms_of({0, -1, kInfinity, std::nanf(""), 1});
  EXPECT_EQ(values[0], -kInfinity);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[2], kInfinity);
  EXPECT_TRUE(std::isnan(values[3]));
  EXPECT_EQ(values[4], 0);
}

TEST(Math, ADivisionIsThatOfEachElementWithBroadcasting) {
  GraphBuilder builder;
  const ValueId a = builder.input("a", {DType::f32, {3, 2}}, true);
  const ValueId b = builder.parameter("b", {DType::f32, {2}});
  const ValueId y = divide(builder, a, b);
  builder.output("y", y);
  builder.output("loss", reduce_sum(builder, y, {}));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"), {a, b}));
  const std::vector<float> numerators{1, 2, -3, 4, 5, -6};
  const std::vector<float> denominators{0.5F, -4};
  run.set_input("a", std::span<const float>(numerators));
  run.set_parameter("b", denominators);
  run.run();
  EXPECT_LT(relative_error(run.output("y"), std::vector<float>{2, -0.5F, -6, -1, 10, 1.5F}), 1e-6);
  EXPECT_LT(relative_error(run.output("gradient/a"), std::vector<float>{2, -0.25F, 2, -0.25F, 2, -0.25F}),
            1e-6);
  // −Σa / b²
  EXPECT_LT(relative_error(run.gradient("b"), std::vector<float>{-12, 0}), 1e-6);
}

TEST(Math, AFillHasTheSizeOfTheBatch) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3}}, true);
  const ValueId row = builder.parameter("row", {DType::f32, {1, 2}});
  const ValueId y = add(builder, fill(builder, 0.5, x, {1, 2}), row);
  builder.output("y", y);
  builder.output("loss", reduce_sum(builder, y, {}));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"), {row}).with_batch(3));
  const std::vector<float> samples(9);
  const std::vector<float> values{1, -2};
  run.set_input("x", std::span<const float>(samples));
  run.set_parameter("row", values);
  run.run();
  EXPECT_EQ(run.output("y"), (std::vector<float>{1.5F, -1.5F, 1.5F, -1.5F, 1.5F, -1.5F}));
  EXPECT_EQ(run.gradient("row"), (std::vector<float>{3, 3}));
}

TEST(Math, LimitsInTheWrongOrderAreRefused) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2}}, true);
  expect_error([&] { clamp(builder, x, 2, 1); }, {"clamp: the limits are 2 and 1"});
}

}  // namespace
}  // namespace telar::test
