#include "telar/nn/external_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <stdexcept>

#include "telar/core/error.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/nn/layers.h"
#include "telar/nn/training_step.h"
#include "telar/runtime/session.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

constexpr int64_t kSamples = 7;
constexpr int64_t kFeatures = 3;

float feature(int64_t sample, int64_t i) {
  return 0.25F * static_cast<float>((sample * 5 + i * 3) % 11) - 1.0F;
}
float target(int64_t sample) { return 0.5F * static_cast<float>(sample % 4) - 0.75F; }

/// y = w · x + b with the squared error, and its gradients, by hand.
void linear_regression(const ExternalCall& call) {
  const std::span<const float> w = call.parameters[0];
  const float b = call.parameters[1][0];
  for (const auto& sums : call.gradients) std::fill(sums.begin(), sums.end(), 0.0F);
  if (call.mode != ExternalMode::prediction) call.result[0] = 0;
  for (size_t n = 0; n < call.rows.size(); ++n) {
    const int32_t row = call.rows[n];
    float y = b;
    for (int64_t i = 0; i < kFeatures; ++i) y += w[static_cast<size_t>(i)] * feature(row, i);
    const float error = y - target(row);
    if (call.mode == ExternalMode::prediction) {
      call.result[n] = y;
      continue;
    }
    call.result[0] += error * error;
    if (call.mode == ExternalMode::evaluation) continue;
    for (int64_t i = 0; i < kFeatures; ++i)
      call.gradients[0][static_cast<size_t>(i)] += 2 * error * feature(row, i);
    call.gradients[1][0] += 2 * error;
    call.gradients[2][0] += static_cast<float>(row);  // a statistic: the mean of the rows
  }
}

ExternalForm form() {
  const auto given = [](float value) { return Initializer{.kind = Initializer::Kind::constant, .a = value}; };
  return {"regression",
          {{.name = "fc.weight", .shape = {1, kFeatures}, .initializer = given(0.1F)},
           {.name = "fc.bias", .shape = {1}, .initializer = given(0.2F)},
           {.name = "rows", .shape = {1}, .trainable = false, .initializer = given(0)}},
          {1}};
}

/// The same by operations of Telar.
Model own_model() {
  return {"own", {kFeatures}, DType::f32, [](ModelBuilder& model, ValueId x) {
            return linear(model, "fc", x, 1);
          }};
}

class Training {
 public:
  Training(const Model& model, const std::string& strategy, int replicas) {
    const Cluster cluster{.devices = std::vector<DeviceSpec>(static_cast<size_t>(replicas))};
    const Attributes options = replicas > 1 ? Attributes{{"replicas", int64_t{replicas}}} : Attributes{};
    const TrainingStep step = make_training_step(
        model,
        {.batch = kSamples, .loss = Loss::mean_squared_error, .optimizer = SgdOptions{.momentum = 0.9}});
    session_ = std::make_unique<Session>(make_strategy(strategy, options).rewrite(step, cluster), cluster,
                                         SessionOptions{});
  }
  Session& session() { return *session_; }
  double step(const BatchView& batch, int64_t number) {
    return session_->train(batch, {.learning_rate = 0.05F, .step = number}).metrics[0];
  }

 private:
  std::unique_ptr<Session> session_;
};

class Samples {
 public:
  Samples() : rows_(kSamples), x_(kSamples * kFeatures), y_(kSamples) {
    std::iota(rows_.begin(), rows_.end(), 0);
    for (int64_t n = 0; n < kSamples; ++n) {
      for (int64_t i = 0; i < kFeatures; ++i) x_[static_cast<size_t>(n * kFeatures + i)] = feature(n, i);
      y_[static_cast<size_t>(n)] = target(n);
    }
  }
  BatchView rows() const { return {.size = kSamples, .inputs = {{"x", rows_.data()}}}; }
  BatchView values() const { return {.size = kSamples, .inputs = {{"x", x_.data()}, {"label", y_.data()}}}; }

 private:
  std::vector<int32_t> rows_;
  std::vector<float> x_;
  std::vector<float> y_;
};

class ExternalModelTest : public ::testing::TestWithParam<std::pair<std::string, int>> {};

TEST_P(ExternalModelTest, TrainsAsOperationsOfTelarDo) {
  const auto& [strategy, replicas] = GetParam();
  const ExternalModel external(form(), linear_regression);
  Training theirs(external.model(), strategy, replicas);
  Training ours(own_model(), "single", 1);
  for (const std::string name : {"fc.weight", "fc.bias"})
    ours.session().write_state(StateName(name), theirs.session().read_state(StateName(name)));
  const Samples samples;
  for (int64_t number = 1; number <= 5; ++number)
    EXPECT_NEAR(theirs.step(samples.rows(), number), ours.step(samples.values(), number), 1e-5);
  for (const std::string name : {"fc.weight", "fc.bias"}) {
    const auto found = theirs.session().read_state(StateName(name));
    const auto expected = ours.session().read_state(StateName(name));
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5) << name;
  }
  EXPECT_NEAR(theirs.session().read_state(StateName("rows"))[0], 3, 1e-5);
  EXPECT_NEAR(theirs.session().evaluate(samples.rows())[0], ours.session().evaluate(samples.values())[0],
              1e-5);
  const auto predictions = theirs.session().predict(samples.rows());
  const auto expected = ours.session().predict(samples.values());
  for (size_t i = 0; i < predictions.size(); ++i) EXPECT_NEAR(predictions[i], expected[i], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Strategies, ExternalModelTest,
                         ::testing::Values(std::pair{"single", 1}, std::pair{"mirrored", 2},
                                           std::pair{"mirrored", 3}, std::pair{"sharded", 2}),
                         [](const auto& which) {
                           return which.param.first + std::to_string(which.param.second);
                         });

TEST(ExternalModel, AnExceptionOfTheFunctionEndsTheStep) {
  const ExternalModel external(form(), [](const ExternalCall& call) {
    if (call.rows.front() > 0) throw std::runtime_error("the second half");
    linear_regression(call);
  });
  Training training(external.model(), "mirrored", 2);
  EXPECT_THROW(training.step(Samples().rows(), 1), std::runtime_error);
}

TEST(ExternalModel, AGradientThatIsNotFiniteIsReported) {
  const ExternalModel external(form(), [](const ExternalCall& call) {
    linear_regression(call);
    if (call.mode == ExternalMode::training) call.result[0] = std::numeric_limits<float>::quiet_NaN();
  });
  Training training(external.model(), "single", 1);
  const auto before = training.session().read_state(StateName("fc.weight"));
  EXPECT_FALSE(training.session().train(Samples().rows(), {.learning_rate = 0.05F}).finite);
  EXPECT_EQ(training.session().read_state(StateName("fc.weight")), before);
}

TEST(ExternalModel, ItsLossMustBeTheGraphs) {
  const ExternalRegistration registration(linear_regression);
  GraphBuilder graph;
  const ValueId rows = graph.input("x", {DType::i32, {4}}, true);
  const ValueId w = graph.parameter("w", {DType::f32, {3}});
  const auto results = external_loss(graph, rows, {w}, registration.name(), ExternalMode::training);
  const ValueId doubled = scale(graph, results[0], 2);
  EXPECT_THROW(differentiate(graph.build(), doubled, {w}), Error);
}

}  // namespace
}  // namespace telar
