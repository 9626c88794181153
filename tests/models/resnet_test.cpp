/// Compares whole residual networks with a float64 run of PyTorch (tests/fixtures/models/make_models.py):
/// logits, loss, the gradient of every parameter, and the statistics of every batch norm, in both modes.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/formula_fill.h"
#include "support/make_session.h"
#include "support/paths.h"
#include "support/small_team.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/rewrite.h"
#include "telar/nn/zoo.h"

namespace telar::test {
namespace {

constexpr double kTolerance = 1e-4;  // relative L2; PyTorch in float32 is within 1e-5

using Json = nlohmann::json;

const Json& cases() {
  static const Json kCases = [] {
    std::ifstream file(fixtures() + "/models/resnets.json");
    return Json::parse(file);
  }();
  return kCases;
}

/// The distance between a tensor and the reference tensor of the digest, relative to the reference's norm. It
/// is estimated from the digest: the norm, some elements, and projections on random directions.
double distance(const std::string& name, const std::vector<float>& values, double scale, const Json& digest) {
  const size_t n = values.size();
  const double norm = digest.at("norm");
  const auto& samples = digest.at("samples");
  double square = 0;
  double sampled = 0;
  for (const float v : values) square += scale * v * scale * v;
  for (size_t k = 0; k < samples.size(); ++k) {
    const size_t i = n <= samples.size() ? k : k * n / samples.size();
    sampled += std::pow(scale * values[i] - samples[k].get<double>(), 2);
  }
  double projected = 0;
  const auto& products = digest.at("products");
  for (size_t d = 0; d < products.size(); ++d) {
    const FormulaWords words(name + "/direction" + std::to_string(d));
    double product = 0;
    for (size_t i = 0; i < n; ++i) product += scale * values[i] * words.sign(i);
    projected += std::pow(product - products[d].get<double>(), 2) / static_cast<double>(products.size());
  }
  const double of_samples = std::sqrt(sampled * static_cast<double>(n) / static_cast<double>(samples.size()));
  return std::max({std::abs(std::sqrt(square) - norm), of_samples, std::sqrt(projected)}) / norm;
}

double distance(const std::vector<float>& values, const std::vector<double>& expected) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(values.at(i) - expected[i], 2);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

/// The forward graph in training mode, with the prediction as its only output.
Graph training_prediction(const Model& model, int64_t batch) {
  return rewrite_nodes(forward_graph(model, Mode::training, batch),
                       [](GraphBuilder& builder, const Node& node, Remap& remap) {
                         if (!node.op->has_effect()) copy_node(builder, node, remap);
                       });
}

/// A step whose gradient is that of the network in evaluation mode: the running statistics are constants.
TrainingStep evaluation_step(const Model& model, int64_t batch) {
  TrainingStep step = make_training_step(model, {.batch = batch});
  ModelBuilder builder(Mode::evaluation);
  GraphBuilder& graph = builder.graph();
  const Shape& sample = model.sample;
  const ValueId x = graph.input("x", {DType::f32, {batch, sample[0], sample[1], sample[2]}}, true);
  const ValueId label = graph.input("label", {DType::i32, {batch}}, true);
  const ValueId loss = cross_entropy(graph, model.build(builder, x), label, 0);
  accumulate(graph, graph.metric("loss"), loss);
  std::vector<ValueId> wanted;
  GraphBuilder update;
  UpdateInputs inputs;
  inputs.learning_rate = update.input("learning_rate", {DType::f32, {1}}, false);
  inputs.samples = update.input("samples", {DType::f32, {1}}, false);
  inputs.step = update.input("step", {DType::f32, {1}}, false);
  for (const ParameterInfo& parameter : step.parameters) {
    if (!parameter.trainable) continue;
    wanted.push_back(graph.graph().find(ValueKind::parameter, parameter.name));
    update.parameter(parameter.name, {DType::f32, parameter.shape});
    sgd_update(update, parameter.name, inputs, {});
  }
  step.gradient = differentiate(graph.build(), loss, wanted);
  step.update = update.build();
  return step;
}

struct Samples8 {
  std::vector<float> x;
  std::vector<int32_t> label;
  std::vector<int64_t> sample;
  BatchView view() const {
    return {static_cast<int64_t>(label.size()), {{"x", x.data()}, {"label", label.data()}}, sample.data()};
  }
};

Samples8 samples_of(const Json& given) {
  const int64_t batch = given.at("batch");
  const int64_t size = given.at("size");
  const FormulaWords words("x", given.at("salt"));
  Samples8 samples;
  for (int64_t i = 0; i < batch * 3 * size * size; ++i) {
    samples.x.push_back(static_cast<float>(words.unit(static_cast<size_t>(i))));
  }
  for (int32_t i = 0; i < batch; ++i) {
    samples.label.push_back((7 * i + 3) % given.at("classes").get<int32_t>());
    samples.sample.push_back(i);
  }
  return samples;
}

void compare(const Json& given, bool training) {
  const int64_t batch = given.at("batch");
  const int64_t size = given.at("size");
  const Model model = make_model(given.at("model"), {{"stem", given.at("stem").get<std::string>()}},
                                 {3, size, size}, given.at("classes"));
  TrainingStep step = training ? make_training_step(model, {.batch = batch}) : evaluation_step(model, batch);
  if (training) step.prediction = training_prediction(model, batch);
  const std::vector<ParameterInfo> parameters = step.parameters;
  const Cluster cluster{{{tested_kind(), small_team(), {}}}};
  Session session(make_strategy("single", {}).rewrite(step, cluster), cluster, {.seed = 1});
  for (const ParameterInfo& parameter : parameters) {
    std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
    formula_fill(parameter, given.at("salt"), values, given.at("shift"));
    session.write_state(parameter.name, values);
  }
  const Samples8 samples = samples_of(given);
  const Json& expected = given.at(training ? "training" : "evaluation");

  EXPECT_LT(distance(session.predict(samples.view()), expected.at("logits").get<std::vector<double>>()),
            kTolerance);
  const StepResult result = session.train(samples.view(), {.learning_rate = 0});
  EXPECT_NEAR(result.metrics.at(0), expected.at("loss").get<double>(),
              1e-5 * expected.at("loss").get<double>());
  for (const auto& [name, digest] : expected.at("tensors").items()) {
    // The gradient of a running statistic is the batch's statistic times the number of samples.
    const bool statistic = name.find("running_") != std::string::npos;
    const double scale = statistic ? 1.0 / static_cast<double>(batch) : 1;
    EXPECT_LT(distance(name, session.read_gradient(name), scale, digest), kTolerance) << name;
  }
}

class ResidualNetwork : public testing::TestWithParam<size_t> {};

TEST_P(ResidualNetwork, EqualsPyTorchInEvaluationMode) { compare(cases().at(GetParam()), false); }

TEST_P(ResidualNetwork, EqualsPyTorchInTrainingMode) { compare(cases().at(GetParam()), true); }

INSTANTIATE_TEST_SUITE_P(Models, ResidualNetwork, testing::Range(size_t{0}, size_t{6}),
                         [](const auto& instance) {
                           const Json& given = cases().at(instance.param);
                           return given.at("model").get<std::string>() + "_stem_" +
                                  given.at("stem").get<std::string>();
                         });

}  // namespace
}  // namespace telar::test
