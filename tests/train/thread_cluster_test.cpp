#include "telar/train/thread_cluster.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/comm/store/store_client.h"
#include "telar/comm/store/store_server.h"
#include "telar/data/synthetic.h"
#include "telar/nn/layers.h"
#include "telar/runtime/server_update.h"
#include "telar/strategy/server_side.h"

namespace telar {
namespace {

using test::expect_error;

constexpr uint64_t kModelSeed = 5;
const Cluster kOneDevice{.devices = {DeviceSpec{}}, .servers = 2};

const SgdOptions kPlain{};
const SgdOptions kMomentum{.momentum = 0.9};

/// A network that no job can describe.
Model own_model() {
  return {"own", {1, 6, 6}, DType::f32, [](ModelBuilder& m, ValueId x) {
            x = tanh(m, linear(m, "first", flatten(m, x), 12));
            return linear(m, "second", dropout(m, "drop", x, 0.2), 3);
          }};
}

TrainingStep own_step(const Optimizer& optimizer) {
  StepOptions options;
  options.optimizer = optimizer;
  return make_training_step(own_model(), options);
}

DatasetPtr own_samples() {
  return synthetic({.samples = 330, .features = {1, 6, 6}, .classes = 3, .seed = 7});
}

TrainerOptions own_options() {
  TrainerOptions options;
  options.epochs = 3;
  options.schedule.base = 0.02;
  options.seed = 4;
  return options;
}

/// Counts steps, and the mean loss of each epoch.
class Losses final : public TrainingObserver {
 public:
  void step_done(const StepReport&, const TrainingState&) override { ++steps; }
  void epoch_done(const EpochReport& report, const TrainingState&) override {
    epochs.push_back(report.train[0]);
  }
  int64_t steps = 0;
  std::vector<double> epochs;
};

struct Trained {
  Losses losses;
  std::vector<std::pair<StateName, std::vector<float>>> state;
};

Trained state_of(const Session& session, Losses losses) {
  Trained trained{std::move(losses), {}};
  for (const StateName& name : session.state_names())
    trained.state.emplace_back(name, session.read_state(name));
  return trained;
}

Trained train_alone(const Optimizer& optimizer) {
  Session session(make_strategy("single").rewrite(own_step(optimizer), kOneDevice), kOneDevice,
                  {.seed = kModelSeed});
  Trainer trainer(session, own_options());
  Losses losses;
  trainer.fit(*own_samples(), nullptr, {&losses});
  return state_of(session, losses);
}

Trained train_on_servers(const std::string& strategy, const Attributes& options, const Optimizer& optimizer,
                         ThreadClusterOptions threads) {
  const Program program = make_strategy(strategy, options).rewrite(own_step(optimizer), kOneDevice);
  const DatasetPtr data = own_samples();
  Session session(coordinator_program(program), kOneDevice, {.seed = kModelSeed});
  threads.seed = kModelSeed;
  ThreadCluster cluster(program, kOneDevice, *data, own_options(), std::move(threads));
  cluster.start(session);
  Trainer trainer(session, own_options());
  trainer.make_steps_with(cluster);
  Losses losses;
  trainer.fit(*data, nullptr, {&losses});
  return state_of(session, losses);
}

void expect_equal(const Trained& trained, const Trained& expected) {
  EXPECT_EQ(trained.losses.steps, expected.losses.steps);
  ASSERT_EQ(trained.losses.epochs.size(), expected.losses.epochs.size());
  for (size_t e = 0; e < expected.losses.epochs.size(); ++e)
    EXPECT_NEAR(trained.losses.epochs[e], expected.losses.epochs[e], 1e-5 * expected.losses.epochs[e]);
  ASSERT_EQ(trained.state.size(), expected.state.size());
  for (const auto& [name, values] : expected.state) {
    const auto found =
        std::ranges::find(trained.state, name, [](const auto& tensor) { return tensor.first; });
    ASSERT_NE(found, trained.state.end()) << name.text();
    EXPECT_LT(test::relative_l2(found->second, values), 1e-5) << name.text();
  }
}

TEST(ThreadCluster, SynchronousTrainingEqualsASingleProcess) {
  expect_equal(train_on_servers("sync_ps", {}, kMomentum, {.workers = 2}), train_alone(kMomentum));
}

TEST(ThreadCluster, TheServersMayBeElsewhere) {
  const Security security{.token = "a-token-of-this-test"};
  std::vector<std::unique_ptr<StoreServer>> servers;
  for (int s = 0; s < 2; ++s)
    servers.push_back(std::make_unique<StoreServer>(
        StoreServerOptions{.security = security, .make_update = program_updates()}));
  ThreadClusterOptions options{.workers = 3};
  options.connect = [&](size_t server, uint32_t member) {
    return std::make_unique<StoreClient>(StoreClientOptions{
        .address = servers[server]->address(), .security = security, .job = "own", .member = member});
  };
  expect_equal(train_on_servers("sync_ps", {{"placement", "partitioned"}}, kPlain, options),
               train_alone(kPlain));
}

TEST(ThreadCluster, AsynchronousTrainingLearns) {
  for (const auto& [strategy, options] : std::vector<std::pair<std::string, Attributes>>{
           {"async_sgd", {}},
           {"downpour", {{"push_every", int64_t{2}}, {"fetch_every", int64_t{3}}, {"staleness", int64_t{4}}}},
           {"parameter_averaging", {{"average_every", int64_t{2}}}}}) {
    const Trained trained = train_on_servers(strategy, options, kPlain, {.workers = 2});
    EXPECT_EQ(trained.losses.steps, 33) << strategy;
    EXPECT_LT(trained.losses.epochs.back(), 0.8 * trained.losses.epochs.front()) << strategy;
  }
}

TEST(ThreadCluster, AShareOfTheGradientsIsEnoughToLearn) {
  for (const std::string strategy : {"async_sgd", "downpour", "sync_ps"}) {
    for (const std::string payload : {"largest", "bf16"}) {
      const Trained trained = train_on_servers(strategy, {{"payload", payload}}, kMomentum, {.workers = 2});
      EXPECT_LT(trained.losses.epochs.back(), 0.8 * trained.losses.epochs.front()) << strategy << payload;
    }
  }
}

TEST(ThreadCluster, PushingEverythingAsTheLargestEqualsASingleProcess) {
  expect_equal(
      train_on_servers("sync_ps", {{"payload", "largest"}, {"share", 1.0}}, kMomentum, {.workers = 2}),
      train_alone(kMomentum));
}

TEST(ThreadCluster, AStopEndsAtAStepThatTheNextTrainingContinues) {
  const Program program = make_strategy("sync_ps").rewrite(own_step(AdamOptions{}), kOneDevice);
  const DatasetPtr data = own_samples();
  Session session(coordinator_program(program), kOneDevice, {.seed = kModelSeed});
  TrainingState state;
  {
    ThreadCluster cluster(program, kOneDevice, *data, own_options(), {.seed = kModelSeed});
    cluster.start(session);
    Trainer trainer(session, own_options());
    trainer.make_steps_with(cluster);
    int polls = 0;
    EXPECT_EQ(trainer.fit(*data, nullptr, {}, [&] { return ++polls > 2; }), FitOutcome::stopped);
    state = trainer.state();
  }
  ThreadCluster cluster(program, kOneDevice, *data, own_options(), {.seed = kModelSeed});
  cluster.start(session, state);  // Adam corrects its averages by the number of updates
  Trainer trainer(session, own_options());
  trainer.restore(state);
  trainer.make_steps_with(cluster);
  EXPECT_EQ(trainer.fit(*data, nullptr), FitOutcome::finished);
  EXPECT_EQ(trainer.state().step, 33);
  const Trained expected = train_alone(AdamOptions{});
  for (const auto& [name, values] : expected.state)
    EXPECT_LT(test::relative_l2(session.read_state(name), values), 1e-5) << name.text();
}

TEST(ThreadCluster, AContinuedTrainingHasTheUpdatesOfShorterPushes) {
  // An epoch of 11 steps has pushes of 4, 4 and 3 steps.
  const Attributes every4{{"push_every", int64_t{4}}};
  const Program program = make_strategy("downpour", every4).rewrite(own_step(AdamOptions{}), kOneDevice);
  const DatasetPtr data = own_samples();
  Session session(coordinator_program(program), kOneDevice, {.seed = kModelSeed});
  TrainingState state;
  TrainerOptions options = own_options();
  for (const int64_t epochs : {1, 2, 3}) {
    options.epochs = epochs;
    ThreadCluster cluster(program, kOneDevice, *data, options, {.workers = 1, .seed = kModelSeed});
    cluster.start(session, state);
    Trainer trainer(session, options);
    trainer.restore(state);
    trainer.make_steps_with(cluster);
    EXPECT_EQ(trainer.fit(*data, nullptr), FitOutcome::finished);
    state = trainer.state();
    EXPECT_EQ(state.updates, 3 * epochs);
  }
  for (const auto& [name, values] : train_on_servers("downpour", every4, AdamOptions{}, {.workers = 1}).state)
    EXPECT_LT(test::relative_l2(session.read_state(name), values), 1e-5) << name.text();
}

/// Counts the steps between pauses.
class Pauses final : public TrainingObserver {
 public:
  void paused(const TrainingState& state) override { steps.push_back(state.step); }
  std::vector<int64_t> steps;
};

TEST(ThreadCluster, PausesAfterEveryMultipleOfASteps) {
  const Program program = make_strategy("sync_ps").rewrite(own_step(kMomentum), kOneDevice);
  const DatasetPtr data = own_samples();
  Session session(coordinator_program(program), kOneDevice, {.seed = kModelSeed});
  TrainerOptions options = own_options();
  options.pause_steps = 4;
  ThreadCluster cluster(program, kOneDevice, *data, options, {.seed = kModelSeed});
  cluster.start(session);
  Trainer trainer(session, options);
  trainer.make_steps_with(cluster);
  Pauses pauses;
  trainer.fit(*data, nullptr, {&pauses});
  EXPECT_EQ(pauses.steps, (std::vector<int64_t>{4, 8, 12, 16, 20, 24, 28, 32}));
  const Trained expected = train_alone(kMomentum);
  for (const auto& [name, values] : expected.state)
    EXPECT_LT(test::relative_l2(session.read_state(name), values), 1e-5) << name.text();
}

TEST(ThreadCluster, AFailureOfAWorkerEndsTheTrainingWithItsSentence) {
  const Program program = make_strategy("async_sgd").rewrite(own_step(kPlain), kOneDevice);
  const DatasetPtr data = own_samples();
  TrainerOptions options = own_options();
  options.schedule.base = 1e38;
  Session session(coordinator_program(program), kOneDevice, {.seed = kModelSeed});
  ThreadCluster cluster(program, kOneDevice, *data, options);
  cluster.start(session);
  Trainer trainer(session, options);
  trainer.make_steps_with(cluster);
  expect_error([&] { trainer.fit(*data, nullptr); }, {"worker ", "is not finite at step"}, Error::Kind::run);
}

TEST(ThreadCluster, RefusesAProgramWithoutServers) {
  const Program program = make_strategy("single").rewrite(own_step(kPlain), kOneDevice);
  const DatasetPtr data = own_samples();
  expect_error([&] { ThreadCluster(program, kOneDevice, *data, own_options()); },
               {"the strategy single has no parameter servers"});
}

}  // namespace
}  // namespace telar
