#include "telar/runtime/session.h"
#include "telar/device/cpu/processor_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "runtime/models.h"
#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::convnet;
using test::make_session;
using test::relative_l2;
using test::Samples;

Model small_mlp() { return make_model("mlp", {{"hidden", std::vector<int64_t>{32, 16}}}, {1, 8, 8}, 10); }

TEST(Session, StateIsUnchangedByTheDevicesLayouts) {
  auto session = make_session(convnet(), {.batch = 8, .optimizer = AdamOptions{}}, {});
  for (const StateName& name : session->state_names()) {
    std::vector<float> values(static_cast<size_t>(session->state_shape(name).elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) + 0.5F;
    session->write_state(name, values);
    EXPECT_EQ(session->read_state(name), values) << name.text();
  }
}

TEST(Session, StateMovedToAnotherSessionContinuesWithTheSameBits) {
  const StepOptions options{.batch = 16, .optimizer = AdamOptions{}};
  auto whole = make_session(convnet(), options, {.replicas = 2, .mirrored = true});
  auto first = make_session(convnet(), options, {.replicas = 2, .mirrored = true});
  const auto step = [](Session& session, int64_t s) {
    const Samples samples(16, {1, 28, 28}, 10, static_cast<uint64_t>(s));
    session.train(samples.view(), {.learning_rate = 0.01F, .step = s, .epoch = 0});
  };
  for (int64_t s = 1; s <= 6; ++s) step(*whole, s);
  for (int64_t s = 1; s <= 3; ++s) step(*first, s);
  auto second = make_session(convnet(), options, {.replicas = 2, .mirrored = true, .session = {.seed = 99}});
  for (const StateName& name : first->state_names()) second->write_state(name, first->read_state(name));
  first.reset();
  // The seed also determines dropout; a resumed job has the original seed.
  auto resumed = make_session(convnet(), options, {.replicas = 2, .mirrored = true});
  for (const StateName& name : second->state_names()) resumed->write_state(name, second->read_state(name));
  for (int64_t s = 4; s <= 6; ++s) step(*resumed, s);
  for (const StateName& name : whole->state_names())
    EXPECT_EQ(resumed->read_state(name), whole->read_state(name)) << name.text();
}

// The same number of workers gives the same bits, another one the same values. Samples of a batch that does
// not divide, in another layout for each size of a part.
TEST(Session, RemadeItGoesOnAsIfItHadNotStopped) {
  const StepOptions options{.batch = 13, .optimizer = AdamOptions{}, .clip_norm = 1.0};
  const auto run = [&](const std::string& strategy, int64_t workers, int64_t then) {
    const auto with = [&](int64_t count) {
      Cluster cluster;
      cluster.devices.resize(static_cast<size_t>(count), {"cpu", 1, {}});
      Attributes given;
      if (strategy == "sharded") given.set("stage", int64_t{3});
      if (strategy == "tensor") given.set("ways", count);
      return std::pair(
          make_strategy(strategy, given).rewrite(make_training_step(convnet(), options), cluster), cluster);
    };
    auto [program, cluster] = with(workers);
    Session session(std::move(program), cluster, {.seed = 11});
    for (int64_t s = 1; s <= 6; ++s) {
      if (s == 4 && then > 0) {
        std::map<std::string, std::vector<float>> state;
        for (const StateName& name : session.state_names()) state[name.text()] = session.read_state(name);
        auto [next, others] = with(then);
        session.remake(std::move(next), others);
        EXPECT_EQ(session.program().mesh.workers(), then);
        for (const StateName& name : session.state_names()) session.write_state(name, state.at(name.text()));
      }
      const Samples samples(13, {1, 28, 28}, 10, static_cast<uint64_t>(s));
      session.train(samples.view(), {.learning_rate = 0.01F, .step = s, .epoch = 0});
    }
    return test::all_state(session);
  };
  for (const std::string strategy : {"mirrored", "sharded", "tensor"}) {
    const std::vector<float> whole = run(strategy, 3, 0);
    EXPECT_EQ(run(strategy, 3, 3), whole) << strategy;
    EXPECT_LT(relative_l2(run(strategy, 3, 2), whole), 1e-4) << strategy;
    if (strategy == "tensor") continue;  // of at least two workers
    EXPECT_LT(relative_l2(run(strategy, 3, 1), whole), 1e-4) << strategy;
  }
}

TEST(Session, ANonFiniteLossUpdatesNothingAndIsTracedToItsLayer) {
  for (const bool mirrored : {false, true}) {
    auto session =
        make_session(small_mlp(), {.batch = 8}, {.replicas = mirrored ? 2 : 1, .mirrored = mirrored});
    session->write_state("fc2.weight", std::vector<float>(16 * 32, 1e38F));
    session->write_state("fc1.bias", std::vector<float>(32, 1e3F));
    const Samples samples(8, {1, 8, 8}, 10);
    const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
    const auto before = session->read_state("fc1.weight");
    EXPECT_FALSE(session->train(samples.view(), inputs).finite);
    EXPECT_EQ(session->read_state("fc1.weight"), before);
    EXPECT_EQ(session->find_non_finite(samples.view(), inputs), "layer 'fc2' (linear)");
    // The session can continue with finite parameters.
    session->initialise();
    EXPECT_TRUE(session->train(samples.view(), inputs).finite);
  }
}

TEST(Session, ANaNOfASampleIsFoundInTheFirstLayer) {
  for (const bool mirrored : {false, true}) {
    auto session =
        make_session(small_mlp(), {.batch = 8}, {.replicas = mirrored ? 2 : 1, .mirrored = mirrored});
    std::vector<float> x(8 * 64, 0.5F);
    x[5 * 64] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<int32_t> labels(8, 1);
    const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
    const BatchView batch{8, {{"x", x.data()}, {"label", labels.data()}}, ids.data()};
    const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
    EXPECT_FALSE(session->train(batch, inputs).finite);
    EXPECT_EQ(session->find_non_finite(batch, inputs), "layer 'fc1' (linear)");
  }
}

TEST(Session, AGradientThatIsNotFiniteIsFoundAlthoughTheLossIs) {
  for (const bool mirrored : {false, true}) {
    auto session =
        make_session(small_mlp(), {.batch = 8}, {.replicas = mirrored ? 2 : 1, .mirrored = mirrored});
    test::let_gradient_overflow(*session);
    std::vector<float> x(8 * 64, 0.5F);
    x[5 * 64] = 1e38F;
    const std::vector<int32_t> labels(8, 1);
    const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5, 6, 7};
    const BatchView batch{8, {{"x", x.data()}, {"label", labels.data()}}, ids.data()};
    const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
    const StepResult result = session->train(batch, inputs);
    EXPECT_FALSE(result.finite);
    EXPECT_TRUE(std::isfinite(result.metrics[0]));
    EXPECT_NE(session->find_non_finite(batch, inputs).find("fc1.weight"), std::string::npos)
        << session->find_non_finite(batch, inputs);
  }
}

TEST(Session, RefusesAStateOfAnotherSize) {
  auto session = make_session(small_mlp(), {.batch = 8}, {});
  EXPECT_THROW(session->write_state("fc1.weight", std::vector<float>(3)), Error);
  EXPECT_THROW(session->read_state("fc9.weight"), Error);
}

TEST(Session, MeasuredSharesGiveTheSameGradientAsOneDevice) {
  const StepOptions options{.batch = 32, .optimizer = SgdOptions{}};
  auto measured =
      make_session(convnet(), options,
                   {.replicas = 2, .mirrored = true, .session = {.seed = 11, .measured_shares = true}});
  auto single = make_session(convnet(), options, {});
  const Samples samples(32, {1, 28, 28}, 10);
  for (int64_t s = 1; s <= 25; ++s) {
    const StepInputs inputs{.learning_rate = 0.01F, .step = s, .epoch = 0};
    const double a = single->train(samples.view(), inputs).metrics[0];
    EXPECT_NEAR(measured->train(samples.view(), inputs).metrics[0] / 32, a / 32, 1e-5);
  }
}

TEST(Session, Bf16GradientsAreCloseToF32Gradients) {
  if (const std::string missing = cpu::bf16_missing(); !missing.empty()) GTEST_SKIP() << missing;
  auto f32 = make_session(convnet(), {.batch = 32, .optimizer = SgdOptions{}}, {});
  auto bf16 =
      make_session(convnet(), {.batch = 32, .optimizer = SgdOptions{}, .precision = Precision::bf16}, {});
  const Samples samples(32, {1, 28, 28}, 10);
  const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 0};
  f32->train(samples.view(), inputs);
  bf16->train(samples.view(), inputs);
  for (const char* name : {"conv1.weight", "conv2.weight", "fc1.weight"}) {
    // Single operations are within 2e-2 (tests/ops). The samples are noise, so the gradient is mostly
    // cancellation, and the errors of five layers add up.
    EXPECT_LT(relative_l2(bf16->read_gradient(name), f32->read_gradient(name)), 0.15) << name;
  }
}

/// Features are normalised over the samples, with one value of each.
Model vector_norm() {
  return {"vectors", {2}, DType::f32, [](ModelBuilder& model, ValueId x) {
            const ValueId hidden = batch_norm(model, "bn", linear(model, "fc1", x, 8));
            return linear(model, "fc2", relu(model, hidden), 2);
          }};
}

TEST(Session, StatisticsOfASingleSampleAreRefused) {
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
  for (const bool mirrored : {false, true}) {
    auto session =
        make_session(vector_norm(), {.batch = 8}, {.replicas = mirrored ? 2 : 1, .mirrored = mirrored});
    const auto before = test::all_state(*session);
    const std::string sentence =
        test::sentence_of([&] { session->train(Samples(1, {2}, 2).view(), inputs); });
    EXPECT_TRUE(test::says(sentence, "layer 'bn' normalises over the samples of a batch")) << sentence;
    EXPECT_EQ(test::all_state(*session), before);
    EXPECT_TRUE(session->train(Samples(3, {2}, 2).view(), inputs).finite);
    session->evaluate(Samples(1, {2}, 2).view());
  }
}

TEST(Session, NoPartOfABatchHasStatisticsOfASingleSample) {
  // With two samples or more in each part, the two of a pair are normalised to ±1: the loss depends on them.
  const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 0};
  const Samples samples(5, {2}, 2);
  auto single = make_session(vector_norm(), {.batch = 5}, {});
  const auto running = [&](const test::SessionSetup& setup) {
    auto session = make_session(vector_norm(), {.batch = 8}, setup);
    EXPECT_TRUE(session->train(samples.view(), inputs).finite);
    const auto mean = session->read_gradient("fc1.weight");
    return std::ranges::any_of(mean, [](float value) { return value != 0; });
  };
  EXPECT_TRUE(running({}));
  EXPECT_TRUE(running({.replicas = 4, .mirrored = true}));
  EXPECT_TRUE(running({.replicas = 2, .pipeline = true}));
  EXPECT_TRUE(running({.replicas = 2, .pipeline = true, .strategy = {{"micro_batches", int64_t{8}}}}));
  EXPECT_EQ(
      make_session(vector_norm(), {.batch = 64}, {.replicas = 2, .pipeline = true})->program().micro_batches,
      8);
  EXPECT_EQ(
      make_session(vector_norm(), {.batch = 16}, {.replicas = 2, .pipeline = true})->program().micro_batches,
      2);
}

/// A batch whose sample 2 has a NaN.
struct WithNaN {
  explicit WithNaN(const Shape& sample) : samples(6, sample, 10), view(samples.view()) {
    const auto count = static_cast<size_t>(6 * sample.elements());
    const auto* x = static_cast<const float*>(view.inputs[0].data);
    values.assign(x, x + count);
    values[count / 3 + 5] = std::numeric_limits<float>::quiet_NaN();
    view.inputs[0].data = values.data();
  }
  Samples samples;
  BatchView view;
  std::vector<float> values;
};

TEST(Session, ANaNOfAnInputIsNotHiddenByFusedOrVectorInstructions) {
  for (const Model& model : {small_mlp(), convnet()}) {
    const WithNaN batch(model.sample);
    for (const test::SessionSetup& setup :
         {test::SessionSetup{}, test::SessionSetup{.replicas = 2, .mirrored = true},
          test::SessionSetup{.replicas = 2, .pipeline = true}}) {
      auto session = make_session(model, {.batch = 6}, setup);
      const auto before = test::all_state(*session);
      EXPECT_TRUE(std::isnan(session->evaluate(batch.view)[0]));
      const std::vector<float> outputs = session->predict(batch.view);
      for (size_t i = 0; i < outputs.size(); ++i)
        EXPECT_EQ(std::isnan(outputs[i]), i / 10 == 2) << "output " << i % 10 << " of sample " << i / 10;
      const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
      const StepResult result = session->train(batch.view, inputs);
      EXPECT_FALSE(result.finite);
      EXPECT_TRUE(std::isnan(result.metrics[0]));
      EXPECT_EQ(test::all_state(*session), before);
      EXPECT_TRUE(session->train(batch.samples.view(), inputs).finite);
    }
  }
}

/// Gives the first unit of small_mlp these weights in turn, and its inputs 2.
struct Overflowing {
  explicit Overflowing(const Model& model, const test::SessionSetup& setup, float even, float odd)
      : session(make_session(model, {.batch = 6}, setup)),
        samples(6, model.sample, 10),
        view(samples.view()) {
    values.assign(static_cast<size_t>(6 * model.sample.elements()), 2.0F);
    view.inputs[0].data = values.data();
    std::vector<float> weight = session->read_state("fc1.weight");
    for (size_t i = 0; i < 64; ++i) weight[i] = i % 2 == 0 ? even : odd;
    session->write_state("fc1.weight", weight);
  }
  std::unique_ptr<Session> session;
  Samples samples;
  BatchView view;
  std::vector<float> values;
};

const std::vector<test::SessionSetup> kKindsOfSessions{
    {}, {.replicas = 2, .mirrored = true}, {.replicas = 2, .pipeline = true}};

TEST(Session, ANaNThatALayerMakesIsNotHiddenByItsReLU) {
  for (const test::SessionSetup& setup : kKindsOfSessions) {
    const Overflowing of(small_mlp(), setup, 3e38F, -3e38F);  // ∞ − ∞
    const auto before = test::all_state(*of.session);
    EXPECT_TRUE(std::isnan(of.session->evaluate(of.view)[0]));
    for (const float output : of.session->predict(of.view)) EXPECT_TRUE(std::isnan(output));
    const StepResult result = of.session->train(of.view, {.learning_rate = 0.1F, .step = 1, .epoch = 0});
    EXPECT_FALSE(result.finite);
    EXPECT_TRUE(std::isnan(result.metrics[0]));
    EXPECT_EQ(test::all_state(*of.session), before);
  }
}

TEST(Session, AnInfinityOfWhichReLUMakesZeroIsNoFailure) {
  for (const test::SessionSetup& setup : kKindsOfSessions) {
    const Overflowing of(small_mlp(), setup, -3e38F, -3e38F);
    const Overflowing silent(small_mlp(), setup, -1, -1);
    EXPECT_EQ(of.session->evaluate(of.view), silent.session->evaluate(silent.view));
    EXPECT_EQ(of.session->predict(of.view), silent.session->predict(silent.view));
    const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
    const StepResult result = of.session->train(of.view, inputs);
    EXPECT_TRUE(result.finite);
    EXPECT_EQ(result.metrics, silent.session->train(silent.view, inputs).metrics);
    EXPECT_EQ(of.session->read_state("fc2.weight"), silent.session->read_state("fc2.weight"));
  }
}

TEST(Session, ANaNOfAParameterIsNotHidden) {
  auto session = make_session(small_mlp(), {.batch = 8}, {});
  std::vector<float> bias = session->read_state("fc1.bias");
  const std::vector<float> finite = bias;
  bias[3] = std::numeric_limits<float>::quiet_NaN();
  session->write_state("fc1.bias", bias);
  const Samples samples(8, {1, 8, 8}, 10);
  EXPECT_TRUE(std::isnan(session->evaluate(samples.view())[0]));
  session->write_state("fc1.bias", finite);
  EXPECT_TRUE(std::isfinite(session->evaluate(samples.view())[0]));
}

}  // namespace
}  // namespace telar
