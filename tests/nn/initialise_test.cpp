#include "telar/nn/initialise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "telar/core/error.h"
#include "telar/nn/initializers.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double fourth = 0;  // kurtosis: 3 for a normal distribution, 1.8 for a uniform one
};

Moments moments_of(const std::vector<float>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const float v : values) m.mean += v / n;
  for (const float v : values) m.deviation += (v - m.mean) * (v - m.mean) / n;
  for (const float v : values) m.fourth += std::pow(v - m.mean, 4) / n;
  m.fourth /= m.deviation * m.deviation;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

std::vector<float> filled(const ParameterInfo& parameter, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
  initialise(parameter, seed, values);
  return values;
}

ParameterInfo named(const std::vector<ParameterInfo>& parameters, const std::string& name) {
  return *std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == name; });
}

TEST(Initialise, LinearLayersAreUniformOverOneByTheRootOfFanIn) {
  const auto parameters =
      parameters_of(make_model("mlp", {{"hidden", std::vector<int64_t>{500}}}, {400}, 10));
  const auto weight = filled(named(parameters, "fc1.weight"), 1);
  const Moments m = moments_of(weight);
  const double bound = 1 / std::sqrt(400.0);
  EXPECT_NEAR(m.mean, 0, bound / 100);
  EXPECT_NEAR(m.deviation, bound / std::sqrt(3.0), bound / 100);
  EXPECT_NEAR(m.fourth, 1.8, 0.02);
  EXPECT_LE(*std::max_element(weight.begin(), weight.end()), bound);
  EXPECT_GE(*std::min_element(weight.begin(), weight.end()), -bound);
  const auto bias = filled(named(parameters, "fc1.bias"), 1);
  EXPECT_NEAR(moments_of(bias).deviation, bound / std::sqrt(3.0), bound / 10);
}

TEST(Initialise, ResidualConvolutionsAreNormalByFanOutAndBatchNormIsTheIdentity) {
  const auto parameters = parameters_of(make_model("resnet18", {}, {3, 64, 64}, 10));
  const Moments m = moments_of(filled(named(parameters, "layer2.0.conv1.weight"), 3));  // 128 filters of 3×3
  const double deviation = std::sqrt(2.0 / (128 * 9));
  EXPECT_NEAR(m.mean, 0, deviation / 50);
  EXPECT_NEAR(m.deviation, deviation, deviation / 50);
  EXPECT_NEAR(m.fourth, 3, 0.1);
  EXPECT_EQ(filled(named(parameters, "bn1.weight"), 3), std::vector<float>(64, 1));
  EXPECT_EQ(filled(named(parameters, "bn1.bias"), 3), std::vector<float>(64, 0));
  EXPECT_EQ(filled(named(parameters, "bn1.running_mean"), 3), std::vector<float>(64, 0));
  EXPECT_EQ(filled(named(parameters, "bn1.running_var"), 3), std::vector<float>(64, 1));
}

TEST(Initialise, DependsOnSeedAndNameAlone) {
  const ParameterInfo a{"a.weight", {64, 8}, true, uniform_fan_in(8)};
  const ParameterInfo b{"b.weight", {64, 8}, true, uniform_fan_in(8)};
  const auto first = filled(a, 7);
  const auto other = filled(b, 7);  // other fills in between must not change the values
  EXPECT_EQ(filled(a, 7), first);
  EXPECT_NE(first, other);
  EXPECT_NE(filled(a, 8), first);
}

TEST(Initialise, RefusesAWrongSize) {
  std::vector<float> values(3);
  EXPECT_THROW(initialise({"w", {2, 2}, true, {}}, 1, values), Error);
}

}  // namespace
}  // namespace telar
