// Models with inputs of any name and form, and losses of their own.
#include <gtest/gtest.h>

#include <memory>

#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/core/random.h"
#include "telar/data/tensor_batches.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/loss.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/nn/layers.h"
#include "telar/train/batch_view.h"
#include "telar/train/trainer.h"

namespace telar {
namespace {

using test::expect_error;

constexpr int64_t kSamples = 22;
constexpr int64_t kPairs = 8;  // samples of a batch; the last one has 6

ValueId two_inputs(ModelBuilder& m, ValueId x) {
  const ValueId second = m.input("second", DType::f32, {2, 2});
  const ValueId sum = add(m, linear(m, "a", x, 5), linear(m, "b", flatten(m, second), 5));
  return linear(m, "out", relu(m, sum), 6);
}

/// Three positions with two classes each.
Model with_a_label_for_each_position() {
  return {"positions", {3}, DType::f32, two_inputs, [](ModelBuilder& m, ValueId prediction) {
            const ValueId label = m.input("label", DType::i32, {3});
            const ValueId sum = cross_entropy(m, reshape(m, prediction, {-1, 2}), reshape(m, label, {-1}), 0);
            return scale(m, sum, 1.0 / 3);
          }};
}

/// The squared error of six targets, times a weight of each sample.
Model with_weights() {
  return {"weighted", {3}, DType::f32, two_inputs, [](ModelBuilder& m, ValueId prediction) {
            const ValueId target = m.input("target", DType::f32, {6});
            const ValueId error = add(m, prediction, scale(m, target, -1));
            return mul(m, reduce_mean(m, mul(m, error, error), {1}), m.input("weight", DType::f32, {}));
          }};
}

std::vector<float> numbers(int64_t count, uint64_t seed) {
  RandomSequence random(seed, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = 2 * random.uniform() - 1;
  return values;
}

std::vector<SampleTensor> tensors_for(const Model& model) {
  std::vector<SampleTensor> tensors = {sample_tensor("x", {3}, numbers(3 * kSamples, 1)),
                                       sample_tensor("second", {2, 2}, numbers(4 * kSamples, 2))};
  if (model.name == "weighted") {
    tensors.push_back(sample_tensor("target", {6}, numbers(6 * kSamples, 3)));
    tensors.push_back(sample_tensor("weight", {}, numbers(kSamples, 4)));
  } else {
    std::vector<int32_t> labels;
    for (int32_t i = 0; i < 3 * kSamples; ++i) labels.push_back(i * i % 3 % 2);
    tensors.push_back(sample_tensor("label", {3}, labels));
  }
  return tensors;
}

StepOptions step_options() {
  StepOptions options;
  options.batch = kPairs;
  options.optimizer = AdamOptions{};
  return options;
}

TEST(NamedInputs, GradientsAreTheSlopesOfTheLoss) {
  for (const Model& model : {with_a_label_for_each_position(), with_weights()}) {
    const auto session = test::make_session(model, step_options(), {});
    const FixedSlice assignment(kSamples, kPairs, 0, false);
    const TensorBatches batches(tensors_for(model), assignment);
    Batch batch(batches.tensors());
    batches.read(batches.begin(0), batch);
    session->train(view_of(batch), {.learning_rate = 0, .step = 1});
    for (const std::string name : {"a.weight", "b.weight", "out.bias"}) {
      const std::vector<float> gradient = session->read_gradient(name);
      std::vector<float> values = session->read_state(name);
      for (size_t i = 0; i < values.size(); ++i) {
        constexpr float kStep = 1e-2F;
        const float value = values[i];
        double loss[2];
        for (const int side : {0, 1}) {
          values[i] = value + (side == 0 ? -kStep : kStep);
          session->write_state(name, values);
          loss[side] = session->evaluate(view_of(batch))[0];
        }
        values[i] = value;
        session->write_state(name, values);
        EXPECT_NEAR(gradient[i], (loss[1] - loss[0]) / (2 * kStep), 3e-3) << model.name << " " << name;
      }
    }
  }
}

TrainerOptions trainer_options() {
  TrainerOptions options;
  options.epochs = 3;
  options.batch = kPairs;
  options.schedule.base = 0.01;
  return options;
}

TEST(NamedInputs, EveryStrategyTrainsThemAsOneDeviceDoes) {
  for (const Model& model : {with_a_label_for_each_position(), with_weights()}) {
    const FixedSlice assignment(kSamples, kPairs, 3, true);
    const TensorBatches batches(tensors_for(model), assignment);
    const auto trained = [&](const test::SessionSetup& setup) {
      auto session = test::make_session(model, step_options(), setup);
      Trainer trainer(*session, trainer_options());
      EXPECT_EQ(trainer.fit(batches, &batches), FitOutcome::finished);
      EXPECT_NEAR(*trainer.state().best, (*trainer.evaluate(batches, {}))[0], 1e-6);
      return session;
    };
    const auto single = trained({});
    for (const test::SessionSetup& setup :
         {test::SessionSetup{.replicas = 3, .mirrored = true}, {.replicas = 2, .pipeline = true}}) {
      const auto session = trained(setup);
      for (const StateName& name : single->state_names())
        EXPECT_LT(test::relative_l2(session->read_state(name), single->read_state(name)), 1e-5)
            << model.name << " " << session->strategy() << " " << name.text();
    }
  }
}

TEST(NamedInputs, ABatchWithoutThemIsRefused) {
  const Model model = with_weights();
  const auto session = test::make_session(model, step_options(), {});
  const FixedSlice assignment(kSamples, kPairs, 0, false);
  const auto refused = [&](std::vector<SampleTensor> tensors, const std::vector<std::string_view>& words) {
    const TensorBatches batches(std::move(tensors), assignment);
    Trainer trainer(*session, trainer_options());
    expect_error([&] { trainer.fit(batches, nullptr); }, words);
  };
  std::vector<SampleTensor> tensors = tensors_for(model);
  tensors.push_back(sample_tensor("mask", {2}, numbers(2 * kSamples, 9)));
  refused(tensors,
          {"the batches have 'mask' (f32, [2] for each sample)", "does not take", "'weight' (f32, []"});
  tensors.pop_back();
  tensors.pop_back();
  refused(tensors, {"the model takes 'weight' (f32, [] for each sample)", "but the batches have 'x'"});
  tensors.push_back(sample_tensor("weight", {1}, numbers(kSamples, 4)));
  refused(tensors,
          {"the model takes 'weight' (f32, [] for each sample)", "'weight' (f32, [1] for each sample)"});

  const std::vector<float> x = numbers(3, 1);
  expect_error(
      [&] {
        session->predict({1, {{"x", x.data()}}});
      },
      {"the batch has no 'second'"}, Error::Kind::run);
}

TEST(NamedInputs, ModelsThatContradictThemselvesAreRefused) {
  const auto step_of = [](const Model& model) { return make_training_step(model, step_options()); };
  Model model = with_weights();
  model.loss = [](ModelBuilder& m, ValueId prediction) {
    return reduce_mean(m, mul(m, prediction, m.input("second", DType::f32, {6})), {1});
  };
  expect_error([&] { step_of(model); }, {"input 'second'", "[8, 2, 2]", "[8, 6]"});
  model.loss = [](ModelBuilder&, ValueId prediction) { return prediction; };
  expect_error([&] { step_of(model); }, {"its loss is [8, 6]", "[8]", "[1]"});
  model = with_weights();
  model.build = [](ModelBuilder& m, ValueId x) {
    const ValueId y = linear(m, "out", x, 6);
    return m.training() ? add(m, y, m.input("noise", DType::f32, {6})) : y;
  };
  expect_error([&] { step_of(model); }, {"'noise' only in training"});
}

}  // namespace
}  // namespace telar
