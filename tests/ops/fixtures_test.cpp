#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ops/op_case.h"
#include "ops/run_graph.h"
#include "telar/device/cpu/processor_support.h"

namespace telar::test {

namespace {

bool is_parameter(const OpCase& given, const std::string& name) {
  return std::find(given.parameters.begin(), given.parameters.end(), name) != given.parameters.end();
}

bool is_network(const OpCase& given) { return given.name.starts_with("network"); }

void give(GraphRun& run, const OpCase& given, const Graph& graph, const Values& tensors) {
  for (const auto& name : given.parameters) run.set_parameter(name, tensors.at(name).data);
  for (const ValueId id : graph.of_kind(ValueKind::input)) {
    const Value& value = graph.value(id);
    if (value.name.starts_with("weighting/")) {
      const size_t k = std::stoul(value.name.substr(value.name.find('/') + 1));
      std::vector<float> weights(static_cast<size_t>(value.type.shape.elements()));
      for (size_t i = 0; i < weights.size(); ++i) weights[i] = weighting(k, i);
      run.set_input(value.name, std::span<const float>(weights));
    } else if (value.type.dtype == DType::i32) {
      const auto& floats = tensors.at(value.name).data;
      const std::vector<int32_t> integers(floats.begin(), floats.end());
      run.set_input(value.name, std::span<const int32_t>(integers));
    } else {
      run.set_input(value.name, std::span<const float>(tensors.at(value.name).data));
    }
  }
}

/// Outputs and gradients by name, each in canonical layout.
Values evaluate(const OpCase& given, Mode mode, Accumulation accumulation = Accumulation::overwrite,
                int runs = 1, bool tf32 = false, std::unique_ptr<Device> device = tested_device()) {
  const Graph graph = build_case(given, mode);
  GraphRun run(graph, std::move(device), accumulation, tf32);
  give(run, given, graph, given.tensors);
  for (int i = 0; i < runs; ++i) run.run();
  Values results;
  for (const auto& name : given.outputs) results[name].data = run.output(name);
  for (const auto& name : given.gradients) {
    const std::string key = "gradient/" + name;
    results[key].data = is_parameter(given, name) ? run.gradient(name) : run.output(key);
  }
  return results;
}

void expect_close(const OpCase& given, const Values& results, double tolerance) {
  for (const auto& [name, result] : results) {
    EXPECT_LT(relative_error(result.data, given.tensors.at(name).data), tolerance)
        << given.name << ": " << name;
  }
}

/// Σ weighting · output, in double.
double loss_of(const OpCase& given, const Graph& graph, const Values& tensors) {
  GraphRun run(graph);
  give(run, given, graph, tensors);
  run.run();
  double loss = 0;
  for (size_t k = 0; k < given.outputs.size(); ++k) {
    const std::string& name = given.outputs[k];
    if (std::find(given.weighted.begin(), given.weighted.end(), name) == given.weighted.end()) continue;
    const auto values = run.output(name);
    for (size_t i = 0; i < values.size(); ++i) loss += static_cast<double>(weighting(k, i)) * values[i];
  }
  return loss;
}

class OperationTest : public ::testing::TestWithParam<std::string> {};
class NetworkTest : public ::testing::TestWithParam<std::string> {};
/// Operations that multiply matrices or convolve.
class ProductTest : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> product_names() {
  std::vector<std::string> names;
  const std::set<std::string> operations{"conv2d", "gru", "linear", "lstm", "matmul"};
  for (const OpCase& given : op_cases())
    if (operations.contains(given.op)) names.push_back(given.name);
  return names;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const OpCase& given : op_cases()) {
    if (is_network(given)) names.push_back(given.name);
  }
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& which) {
  std::string name = which.param;
  std::replace(name.begin(), name.end(), '-', 'm');
  return name;
}

}  // namespace

TEST_P(OperationTest, EqualsPyTorchInF32) {
  const OpCase& given = op_case(GetParam());
  expect_close(given, evaluate(given, Mode::f32), 1e-5);
}

TEST_P(ProductTest, EqualsPyTorchInTf32) {
  if (tested_device()->in_host_memory()) GTEST_SKIP() << "the CPU does not compute in TF32";
  const OpCase& given = op_case(GetParam());
  expect_close(given, evaluate(given, Mode::f32, Accumulation::overwrite, 1, true), 3e-3);
}

TEST_P(OperationTest, EqualsPyTorchInBf16) {
  const OpCase& given = op_case(GetParam());
  if (!computes_in_bf16(given)) GTEST_SKIP() << given.op << " stays in f32";
  if (const std::string missing = bf16_missing_here(); !missing.empty()) GTEST_SKIP() << missing;
  // In a network the rounding errors of the layers add up, and the gradient of batch norm is a small
  // difference of large sums.
  expect_close(given, evaluate(given, Mode::bf16), is_network(given) ? 0.12 : 2e-2);
}

// Both devices round at the same places, so they are nearer to each other than to PyTorch's f32.
TEST_P(OperationTest, EqualsTheCpuInBf16) {
  if (tested_device()->in_host_memory()) GTEST_SKIP() << "the CPU itself is tested";
  const OpCase& given = op_case(GetParam());
  if (!computes_in_bf16(given)) GTEST_SKIP() << given.op << " stays in f32";
  if (const std::string missing = cpu::bf16_missing(); !missing.empty()) GTEST_SKIP() << missing;
  const Values expected =
      evaluate(given, Mode::bf16, Accumulation::overwrite, 1, false, make_cpu_device(small_team(), {}));
  for (const auto& [name, result] : evaluate(given, Mode::bf16)) {
    EXPECT_LT(relative_error(result.data, expected.at(name).data), is_network(given) ? 0.12 : 1e-2)
        << given.name << ": " << name;
  }
}

TEST_P(NetworkTest, EqualsPyTorchWhenFused) {
  const OpCase& given = op_case(GetParam());
  expect_close(given, evaluate(given, Mode::fused), 1e-5);
}

TEST_P(OperationTest, AddsGradientsOfTwoRuns) {
  const OpCase& given = op_case(GetParam());
  const Values results = evaluate(given, Mode::f32, Accumulation::add, 2);
  for (const auto& name : given.gradients) {
    if (!is_parameter(given, name)) continue;
    auto twice = given.tensors.at("gradient/" + name).data;
    for (float& value : twice) value *= 2;
    EXPECT_LT(relative_error(results.at("gradient/" + name).data, twice), 1e-5) << given.name << ": " << name;
  }
}

TEST_P(OperationTest, GradientIsTheSlopeOfTheLoss) {
  const OpCase& given = op_case(GetParam());
  if (given.gradients.empty()) GTEST_SKIP() << "no gradient";
  if (given.name == "reduce_max_ties" || is_network(given))
    GTEST_SKIP() << "the slope is undefined at ties and at a ReLU's corner";
  const Values results = evaluate(given, Mode::f32);
  const Graph graph = build_case(given, Mode::f32);
  for (const auto& name : given.gradients) {
    const auto& gradient = results.at("gradient/" + name).data;
    constexpr float kStep = 0.01F;  // less than half the distance between values in cases with a maximum
    double slope = 0;
    double size = 0;
    Values ahead = given.tensors;
    Values behind = given.tensors;
    for (size_t i = 0; i < gradient.size(); ++i) {
      const float direction = std::cos(1.7F * static_cast<float>(i) + 0.3F);
      slope += static_cast<double>(gradient[i]) * direction;
      size += std::abs(static_cast<double>(gradient[i]) * direction);
      ahead[name].data[i] += kStep * direction;
      behind[name].data[i] -= kStep * direction;
    }
    const double measured = (loss_of(given, graph, ahead) - loss_of(given, graph, behind)) / (2.0 * kStep);
    EXPECT_NEAR(measured, slope, 1e-3 * size + 2e-3) << given.name << ": " << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OperationTest, ::testing::ValuesIn(op_case_names()), test_name);
INSTANTIATE_TEST_SUITE_P(Cases, ProductTest, ::testing::ValuesIn(product_names()), test_name);
INSTANTIATE_TEST_SUITE_P(Cases, NetworkTest, ::testing::ValuesIn(network_names()), test_name);

}  // namespace telar::test
