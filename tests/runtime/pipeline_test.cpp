#include <gtest/gtest.h>

#include <limits>

#include "runtime/models.h"
#include "support/formula_fill.h"
#include "support/make_session.h"
#include "support/sanitizers.h"
#include "support/sentences.h"
#include "telar/device/cpu/processor_support.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::all_gradients;
using test::convnet;
using test::make_session;
using test::relative_l2;
using test::Samples;
using test::SessionSetup;

Model mlp() { return make_model("mlp", {{"hidden", std::vector<int64_t>{64, 32}}}, {1, 28, 28}, 10); }
Model lstm() { return make_model("lstm", {}, {28, 28}, 10); }
Model resnet() { return make_model("resnet18", {{"width", int64_t{16}}}, {3, 32, 32}, 10); }

SessionSetup pipeline(int stages, int64_t micro_batches) {
  return {.replicas = stages, .pipeline = true, .strategy = {{"micro_batches", int64_t{micro_batches}}}};
}

/// Runs one step from the same parameters on a single device and as a pipeline.
/// Returns the relative distance of the gradients.
double gradient_difference(const Model& model, int64_t batch, const SessionSetup& setup,
                           int64_t samples_now = 0) {
  const StepOptions step{.batch = batch, .optimizer = SgdOptions{}};
  auto single = make_session(model, step, {});
  auto staged = make_session(model, step, setup);
  const Samples samples(samples_now > 0 ? samples_now : batch, model.sample, 10);
  const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 3};
  const auto a = single->train(samples.view(), inputs);
  const auto b = staged->train(samples.view(), inputs);
  EXPECT_NEAR(a.metrics[0], b.metrics[0], 1e-5 * std::abs(a.metrics[0]));
  EXPECT_EQ(a.metrics[1], b.metrics[1]);
  return relative_l2(all_gradients(*staged), all_gradients(*single));
}

TEST(Pipeline, GradientEqualsASingleDevice) {
  for (const int stages : {1, 2, 3}) {
    for (const int64_t micro_batches : {1, 4}) {
      EXPECT_LT(gradient_difference(convnet(), 32, pipeline(stages, micro_batches)), 1e-6)
          << stages << " stages, " << micro_batches << " micro-batches";
    }
  }
  EXPECT_LT(gradient_difference(lstm(), 16, pipeline(2, 4)), 1e-6);
}

TEST(Pipeline, BatchesThatDoNotDivideGiveTheExactMean) {
  EXPECT_LT(gradient_difference(convnet(), 31, pipeline(2, 4)), 1e-6);
  EXPECT_LT(gradient_difference(mlp(), 7, pipeline(3, 4)), 1e-6);
  EXPECT_LT(gradient_difference(convnet(), 32, pipeline(2, 4), 13), 1e-6) << "a last, smaller batch";
}

TEST(Pipeline, FewerSamplesThanMicroBatchesLeaveSomeEmpty) {
  EXPECT_LT(gradient_difference(convnet(), 3, pipeline(2, 4)), 1e-6);
  EXPECT_LT(gradient_difference(mlp(), 32, pipeline(3, 8), 1), 1e-6);
}

std::vector<float> resnet_gradients(const SessionSetup& setup, int64_t samples, int64_t batch = 8) {
  auto session = make_session(resnet(), {.batch = batch, .optimizer = SgdOptions{}}, setup);
  for (const ParameterInfo& parameter : parameters_of(resnet())) {
    std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
    test::formula_fill(parameter, 2, values);
    session->write_state(parameter.name, values);
  }
  const Samples given(8, resnet().sample, 10);
  session->train(given.view(0, samples), {.learning_rate = 0, .step = 1, .epoch = 0});
  return all_gradients(*session);
}

// Several values cross a cut inside a residual block. Batch norm uses the statistics of the only micro-batch.
TEST(Pipeline, ResidualBlocksAndBatchNormEqualASingleDeviceWithOneMicroBatch) {
  const auto single = resnet_gradients({}, 7);
  for (const int stages : {2, 3}) {
    EXPECT_LT(relative_l2(resnet_gradients(pipeline(stages, 1), 7), single), 1e-6) << stages << " stages";
  }
}

// A replica of `mirrored` uses the statistics of its part of the batch, as a micro-batch uses its own.
TEST(Pipeline, BatchNormOfMicroBatchesEqualsThatOfMirroredReplicas) {
  const auto mirrored = resnet_gradients({.replicas = 4, .mirrored = true}, 8);
  for (const int stages : {1, 2, 3}) {
    EXPECT_LT(relative_l2(resnet_gradients(pipeline(stages, 4), 8), mirrored), 1e-6) << stages << " stages";
  }
}

TEST(Pipeline, HundredFreeStepsFollowASingleDevice) {
  const StepOptions step{.batch = 12, .optimizer = SgdOptions{}};
  auto reference = make_session(convnet(), step, {});
  auto two = make_session(convnet(), step, pipeline(2, 4));
  auto three = make_session(convnet(), step, pipeline(3, 4));
  for (int64_t s = 1; s <= (test::kSanitized ? 10 : 100); ++s) {
    const Samples samples(11, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    const StepInputs inputs{.learning_rate = 0.01F, .step = s, .epoch = 0};
    const double expected = reference->train(samples.view(), inputs).metrics[0] / 11;
    ASSERT_NEAR(two->train(samples.view(), inputs).metrics[0] / 11, expected, 1e-5) << "step " << s;
    ASSERT_NEAR(three->train(samples.view(), inputs).metrics[0] / 11, expected, 1e-5) << "step " << s;
  }
}

std::vector<float> state_after(Session& session, int64_t first, int64_t last) {
  for (int64_t s = first; s <= last; ++s) {
    const Samples samples(s % 3 == 0 ? 19 : 32, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    session.train(samples.view(), {.learning_rate = 0.001F, .step = s, .epoch = 0});
  }
  std::vector<float> all;
  for (const StateName& name : session.state_names()) {
    const auto values = session.read_state(name);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

const StepOptions kClippedAdam{.batch = 32, .optimizer = AdamOptions{}, .clip_norm = 1.0};

TEST(Pipeline, TheSameJobTwiceGivesTheSameBits) {
  const auto run = [] { return state_after(*make_session(convnet(), kClippedAdam, pipeline(2, 4)), 1, 6); };
  EXPECT_EQ(run(), run());
}

// Measured times decide where layers are cut, but do not change the results.
TEST(Pipeline, TheBitsDoNotDependOnTheCut) {
  const auto run = [](const std::string& slow) {
    SessionSetup setup = pipeline(2, 4);
    setup.costs = {{slow, "conv2d", 1, 1}, {"fc1", "linear", 0.1, 0.1}};
    return state_after(*make_session(convnet(), kClippedAdam, setup), 1, 6);
  };
  EXPECT_EQ(run("conv1"), run("conv2"));
}

TEST(Pipeline, StateMovedToAnotherSessionContinuesWithTheSameBits) {
  auto whole = make_session(convnet(), kClippedAdam, pipeline(2, 4));
  const auto expected = state_after(*whole, 1, 5);
  auto first = make_session(convnet(), kClippedAdam, pipeline(2, 4));
  state_after(*first, 1, 2);
  auto second = make_session(convnet(), kClippedAdam, pipeline(2, 4));
  for (const StateName& name : first->state_names()) second->write_state(name, first->read_state(name));
  EXPECT_EQ(state_after(*second, 3, 5), expected);
}

TEST(Pipeline, ClippingSeesTheNormOfTheWholeGradient) {
  const StepOptions step{.batch = 16, .optimizer = SgdOptions{}, .clip_norm = 0.01};
  auto single = make_session(mlp(), step, {});
  auto staged = make_session(mlp(), step, pipeline(3, 4));
  const Samples samples(16, {1, 28, 28}, 10);
  single->train(samples.view(), {.learning_rate = 1.0F, .step = 1, .epoch = 0});
  staged->train(samples.view(), {.learning_rate = 1.0F, .step = 1, .epoch = 0});
  for (const StateName& name : single->state_names()) {
    EXPECT_LT(relative_l2(staged->read_state(name), single->read_state(name)), 1e-6) << name.text();
  }
}

TEST(Pipeline, EvaluationAndPredictionDoNotDependOnTheStages) {
  const StepOptions step{.batch = 32};
  auto single = make_session(resnet(), step, {});
  auto staged = make_session(resnet(), step, pipeline(3, 4));
  const Samples samples(29, {3, 32, 32}, 10);
  const auto a = single->evaluate(samples.view());
  const auto b = staged->evaluate(samples.view());
  EXPECT_NEAR(a[0], b[0], 1e-4);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_LT(relative_l2(staged->predict(samples.view()), single->predict(samples.view())), 1e-6);
}

TEST(Pipeline, StepsAndEvaluationUseTheSameMemory) {
  const StepOptions step{.batch = 16, .optimizer = SgdOptions{}};
  const Samples few(16, {1, 28, 28}, 10);
  const Samples many(128, {1, 28, 28}, 10);
  auto straight = make_session(convnet(), step, pipeline(2, 4));
  auto staged = make_session(convnet(), step, pipeline(2, 4));
  const auto train = [&](Session& session, int64_t number) {
    session.train(few.view(), {.learning_rate = 0.01F, .step = number, .epoch = 0});
  };
  for (const auto& session : {straight.get(), staged.get()}) train(*session, 1);
  const size_t of_steps = staged->memory().activation_bytes;
  staged->evaluate(few.view());
  EXPECT_EQ(staged->memory().activation_bytes, of_steps);
  staged->evaluate(many.view());  // the memory grows, and so moves
  EXPECT_GT(staged->memory().activation_bytes, of_steps);
  for (const auto& session : {straight.get(), staged.get()}) train(*session, 2);
  EXPECT_EQ(all_gradients(*staged), all_gradients(*straight));
}

TEST(Pipeline, Bf16GradientsEqualASingleDevice) {
  if (const std::string missing = cpu::bf16_missing(); !missing.empty()) GTEST_SKIP() << missing;
  const StepOptions step{.batch = 32, .optimizer = SgdOptions{}, .precision = Precision::bf16};
  auto single = make_session(convnet(), step, {});
  auto staged = make_session(convnet(), step, pipeline(2, 4));
  const Samples samples(32, {1, 28, 28}, 10);
  const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 0};
  single->train(samples.view(), inputs);
  staged->train(samples.view(), inputs);
  EXPECT_LT(relative_l2(all_gradients(*staged), all_gradients(*single)), 2e-2);
}

TEST(Pipeline, ANonFiniteLossUpdatesNothingAndIsTracedToItsLayer) {
  auto session = make_session(mlp(), {.batch = 8}, pipeline(3, 4));
  session->write_state("fc2.weight", std::vector<float>(32 * 64, 1e38F));
  session->write_state("fc1.bias", std::vector<float>(64, 1e3F));
  const Samples samples(8, {1, 28, 28}, 10);
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
  const auto before = session->read_state("fc1.weight");
  EXPECT_FALSE(session->train(samples.view(), inputs).finite);
  EXPECT_EQ(session->read_state("fc1.weight"), before);
  EXPECT_EQ(session->find_non_finite(samples.view(), inputs), "layer 'fc2' (linear)");
  session->initialise();
  EXPECT_TRUE(session->train(samples.view(), inputs).finite);
}

/// A model that uses its tokens in the first stage only.
Model words() {
  return {"words", {4}, DType::i32, [](ModelBuilder& model, ValueId x) {
            const ValueId rows = embedding(model, "words", x, 10, 8);
            return linear(model, "fc", flatten(model, rows), 3);
          }};
}

TEST(Pipeline, AFailedStageReleasesTheOthersAndTheSessionContinues) {
  SessionSetup setup = pipeline(2, 4);
  auto session = make_session(words(), {.batch = 8}, setup);
  std::vector<int32_t> tokens(8 * 4, 3);
  const std::vector<int32_t> labels(8, 1);
  const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
  const BatchView batch{8, {{"x", tokens.data()}, {"label", labels.data()}}, ids.data()};
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
  for (int round = 0; round < 3; ++round) {
    tokens[5 * 4] = 10;  // in the third micro-batch
    test::expect_error([&] { session->train(batch, inputs); }, {"layer 'words'", "token 10"});
    tokens[5 * 4] = 3;
    EXPECT_TRUE(session->train(batch, inputs).finite);
  }
}

TEST(Pipeline, MeasuresTheBubbleAndReportsTheFormula) {
  auto session = make_session(convnet(), {.batch = 32}, pipeline(2, 7));
  EXPECT_FALSE(session->bubble());
  state_after(*session, 1, 6);
  ASSERT_TRUE(session->bubble());
  EXPECT_DOUBLE_EQ(session->bubble()->formula, 1.0 / 8);
  EXPECT_GE(session->bubble()->measured, 0);
  EXPECT_LT(session->bubble()->measured, 1);
}

}  // namespace
}  // namespace telar
