#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/sharded.h"

namespace telar {
namespace {

using test::all_state;
using test::copy_state;
using test::GridCase;
using test::Samples;
using test::Sharding;

std::unique_ptr<Session> single_session(const Model& model, const StepOptions& options) {
  return test::make_session(model, options, {});
}

std::vector<Sharding> stages(int replicas) {
  std::vector<Sharding> all;
  for (const int64_t stage : {1, 2, 3}) all.push_back({stage, replicas});
  return all;
}

GridCase case_named(const std::string& name) {
  const auto cases = test::grid_cases();
  return *std::ranges::find(cases, name, &GridCase::text);
}

/// Parameters: the network, the stage and the number of replicas.
class ShardedModels : public ::testing::TestWithParam<std::tuple<std::string, int64_t, int>> {};

TEST_P(ShardedModels, GradientsAndMetricsAreThoseOfOneDevice) {
  const auto [name, stage, replicas] = GetParam();
  const GridCase tested = case_named(name);
  const StepOptions options{.batch = 11, .optimizer = SgdOptions{}};
  const Samples samples(11, tested.sample, tested.classes, 6);
  const auto one = single_session(tested.model, options);
  const auto several = Sharding{stage, replicas}.session(tested.model, options);
  test::fill_clear_of_zero(*one);
  test::fill_clear_of_zero(*several);
  const StepInputs inputs{.learning_rate = 0, .step = 1, .epoch = 3};
  const StepResult expected = one->train(samples.view(), inputs);
  const StepResult result = several->train(samples.view(), inputs);
  ASSERT_TRUE(result.finite);
  for (size_t m = 0; m < expected.metrics.size(); ++m)
    EXPECT_NEAR(result.metrics[m], expected.metrics[m], 1e-5 * std::abs(expected.metrics[m]));
  EXPECT_LT(test::relative_l2(test::all_gradients(*several), test::all_gradients(*one)), tested.tolerance);
  const double evaluated = one->evaluate(samples.view())[0];
  EXPECT_NEAR(several->evaluate(samples.view())[0], evaluated, 1e-5 * std::abs(evaluated));
  EXPECT_LT(test::relative_l2(several->predict(samples.view()), one->predict(samples.view())), 1e-5);
}

std::string name_of_sharded(const testing::TestParamInfo<ShardedModels::ParamType>& info) {
  const auto [name, stage, replicas] = info.param;
  return name + "_stage_" + std::to_string(stage) + "_of_" + std::to_string(replicas);
}

const auto kStages = ::testing::Values<int64_t>(1, 2, 3);
INSTANTIATE_TEST_SUITE_P(Small, ShardedModels,
                         ::testing::Combine(::testing::Values("mlp", "convnet", "lstm"), kStages,
                                            ::testing::Values(2, 3, 4)),
                         name_of_sharded);
INSTANTIATE_TEST_SUITE_P(Large, ShardedModels,
                         ::testing::Combine(::testing::Values("resnet18"), kStages, ::testing::Values(3)),
                         name_of_sharded);

TEST(Sharded, BatchesWithFewerSamplesThanReplicasAreExact) {
  const GridCase tested = case_named("mlp");
  const StepOptions options{.batch = 8, .optimizer = SgdOptions{.momentum = 0.9}};
  const Samples samples(8, tested.sample, tested.classes);
  for (const Sharding& sharding : stages(4)) {
    const auto one = single_session(tested.model, options);
    const auto several = sharding.session(tested.model, options);
    int64_t step = 0;
    for (const int64_t size : {1, 2, 8, 3, 1}) {
      const StepInputs inputs{.learning_rate = 0.1F, .step = ++step};
      const BatchView batch = samples.view(0, size);
      one->train(batch, inputs);
      several->train(batch, inputs);
      EXPECT_LT(test::relative_l2(all_state(*several), all_state(*one)), 1e-6)
          << sharding.text() << ", " << size << " samples";
      EXPECT_LT(test::relative_l2(several->predict(batch), one->predict(batch)), 1e-5);
      const double evaluated = one->evaluate(batch)[0];
      EXPECT_NEAR(several->evaluate(batch)[0], evaluated, 1e-5 * std::abs(evaluated));
    }
  }
}

TEST(Sharded, AHundredStepsFollowOneDevice) {
  const GridCase tested = case_named("convnet");
  const StepOptions options{.batch = 4, .optimizer = AdamOptions{}};
  const Samples samples(8, tested.sample, tested.classes);
  const auto one = single_session(tested.model, options);
  std::vector<std::unique_ptr<Session>> several;
  for (const Sharding& sharding : stages(3)) several.push_back(sharding.session(tested.model, options));
  for (int64_t step = 1; step <= (test::kSanitized ? 10 : 100); ++step) {
    const StepInputs inputs{.learning_rate = 1e-4F, .step = step, .epoch = static_cast<uint32_t>(step)};
    const BatchView batch = samples.view(step % 2 * 4, step % 2 * 4 + 4);
    const double expected = one->train(batch, inputs).metrics[0];
    for (size_t s = 0; s < several.size(); ++s) {
      ASSERT_NEAR(several[s]->train(batch, inputs).metrics[0], expected, 1e-5 * expected)
          << "stage " << s + 1 << ", step " << step;
    }
  }
}

TEST(Sharded, GivesTheSameBitsTwiceAndWhenResumed) {
  const GridCase tested = case_named("mlp");
  const StepOptions options{.batch = 9, .optimizer = AdamOptions{}, .clip_norm = 0.5};
  const Samples samples(9, tested.sample, tested.classes);
  const auto steps = [&](Session& session, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step)
      session.train(samples.view(), {.learning_rate = 0.01F, .step = step});
  };
  for (const Sharding& sharding : stages(3)) {
    const auto first = sharding.session(tested.model, options);
    const auto second = sharding.session(tested.model, options);
    const auto resumed = sharding.session(tested.model, options);
    steps(*first, 1, 10);
    steps(*second, 1, 5);
    copy_state(*second, *resumed);
    steps(*second, 6, 10);
    steps(*resumed, 6, 10);
    EXPECT_EQ(all_state(*second), all_state(*first)) << sharding.text();
    EXPECT_EQ(all_state(*resumed), all_state(*first)) << sharding.text();
  }
}

TEST(Sharded, ClipsByTheNormOfTheWholeGradient) {
  const GridCase tested = case_named("mlp");
  const StepOptions options{.batch = 9, .optimizer = SgdOptions{}, .clip_norm = 0.01};
  const Samples samples(9, tested.sample, tested.classes);
  const auto one = single_session(tested.model, options);
  const auto before = all_state(*one);
  one->train(samples.view(), {.learning_rate = 1.0F, .step = 1});
  auto moved = all_state(*one);
  for (size_t i = 0; i < moved.size(); ++i) moved[i] -= before[i];
  EXPECT_NEAR(test::relative_l2(moved, std::vector<float>(moved.size(), 0)), 0.01, 1e-4);
  for (const Sharding& sharding : stages(4)) {
    const auto several = sharding.session(tested.model, options);
    several->train(samples.view(), {.learning_rate = 1.0F, .step = 1});
    EXPECT_LT(test::relative_l2(all_state(*several), all_state(*one)), 1e-6) << sharding.text();
  }
}

TEST(Sharded, ContinuesOnOneDeviceAndInAnotherStage) {
  const GridCase tested = case_named("mlp");
  const StepOptions options{.batch = 10, .optimizer = AdamOptions{}};
  const Samples samples(10, tested.sample, tested.classes);
  const auto steps = [&](Session& session, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step)
      session.train(samples.view(), {.learning_rate = 0.01F, .step = step});
  };
  const auto one = single_session(tested.model, options);
  steps(*one, 1, 15);
  for (const Sharding& sharding : stages(3)) {
    const auto several = sharding.session(tested.model, options);
    const auto resumed = single_session(tested.model, options);
    const auto back = Sharding{sharding.stage % 3 + 1, 2}.session(tested.model, options);
    steps(*several, 1, 5);
    copy_state(*several, *resumed);
    EXPECT_EQ(all_state(*resumed), all_state(*several)) << "files are canonical: no bit changes on the way";
    steps(*resumed, 6, 10);
    copy_state(*resumed, *back);
    steps(*back, 11, 15);
    EXPECT_LT(test::relative_l2(all_state(*back), all_state(*one)), 1e-5) << sharding.text();
  }
}

TEST(Sharded, KeepsOneCopyOfWhatIsDivided) {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>(8, 256)}}, {256}, 10);
  const StepOptions options{.batch = 8, .optimizer = AdamOptions{}};
  const Samples samples(8, {256}, 10);
  const auto one = single_session(model, options)->memory();
  const auto of = [&](int64_t stage) {
    const auto session = Sharding{stage, 4}.session(model, options);
    session->train(samples.view(), {.learning_rate = 0.1F, .step = 1});
    return session->memory();
  };
  const SessionMemory first = of(1);
  const SessionMemory second = of(2);
  const SessionMemory third = of(3);
  EXPECT_EQ(first.optimizer_bytes, one.optimizer_bytes);
  EXPECT_EQ(first.gradient_bytes, 4 * one.gradient_bytes);
  // What stays whole (biases) is kept by each.
  EXPECT_LT(third.optimizer_bytes, one.optimizer_bytes * 105 / 100);
  EXPECT_LT(third.gradient_bytes, one.gradient_bytes * 105 / 100);
  EXPECT_LT(third.parameter_bytes, one.parameter_bytes * 105 / 100);
  EXPECT_EQ(second.parameter_bytes, third.parameter_bytes);
  // In stage 2, each replica computes with whole parameters until the end of backward; in stage 3, with those
  // of one layer.
  const size_t whole = one.parameter_bytes - one.gradient_bytes - one.optimizer_bytes;
  EXPECT_GT(second.activation_bytes, 4 * whole);
  EXPECT_LT(third.activation_bytes, second.activation_bytes - 4 * whole / 2);
}

TEST(Sharded, AllReplicasStopAtALossThatIsNotFinite) {
  const GridCase tested = case_named("mlp");
  const StepOptions options{.batch = 6, .optimizer = SgdOptions{}};
  const Samples samples(6, tested.sample, tested.classes);
  for (const Sharding& sharding : stages(2)) {
    const auto session = sharding.session(tested.model, options);
    session->write_state("fc3.bias", std::vector<float>(10, std::numeric_limits<float>::infinity()));
    const auto before = session->read_state("fc1.weight");
    const StepInputs inputs{.learning_rate = 0.1F, .step = 1};
    EXPECT_FALSE(session->train(samples.view(), inputs).finite);
    EXPECT_EQ(session->read_state("fc1.weight"), before);
    EXPECT_EQ(session->find_non_finite(samples.view(), inputs),
              "parameter 'fc3.bias' (from an earlier update)");
  }
}

TEST(Sharded, AllReplicasSeeAGradientThatIsNotFiniteWhereverItIs) {
  const GridCase tested = case_named("mlp");
  const StepOptions options{.batch = 6, .optimizer = SgdOptions{}};
  std::vector<float> x(6 * 12, 1.0F);
  const std::vector<int32_t> labels(6, 1);
  const std::vector<int64_t> ids{0, 1, 2, 3, 4, 5};
  x[5 * 12] = 1e38F;
  const BatchView batch{6, {{"x", x.data()}, {"label", labels.data()}}, ids.data()};
  for (const Sharding& sharding : stages(2)) {
    const auto session = sharding.session(tested.model, options);
    test::let_gradient_overflow(*session);
    EXPECT_TRUE(std::isfinite(session->evaluate(batch)[0])) << sharding.text();
    EXPECT_FALSE(session->train(batch, {.learning_rate = 0.1F, .step = 1}).finite) << sharding.text();
  }
}

}  // namespace
}  // namespace telar
