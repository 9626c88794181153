// Training on GPUs through the module, as the program loads it. The expected results are those of the same
// job on CPU devices. Without GPUs, the tests run on two fake ones. The host's own code cannot access the
// fakes' memory (cuda/device_memory.h), so the tests also show what stays on the GPU.
#include "telar/runtime/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "cuda/module_settings.h"
#include "support/make_session.h"
#include "support/paths.h"
#include "support/sanitizers.h"
#include "support/sentences.h"
#include "telar/device/cuda.h"
#include "telar/nn/layers.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

using test::kSanitized;
using test::make_session;
using test::relative_l2;
using test::Samples;
using test::SessionSetup;

/// Uses the fake GPUs unless the environment names a module (TELAR_MODULES).
class SomeModule : public testing::Environment {
 public:
  void SetUp() override { setenv("TELAR_MODULES", test::fake_cuda_folder().c_str(), 0); }
};
const auto* const kSomeModule = testing::AddGlobalTestEnvironment(new SomeModule);

/// For behaviour that a real GPU does not show, or for which it has too much memory.
bool on_stand_ins() { return std::string(std::getenv("TELAR_MODULES")) == test::fake_cuda_folder(); }
bool has_two_gpus() { return find_cuda_gpus().gpus.size() > 1; }

struct Network {
  std::string name;
  Model model;
  Shape sample;
  StepOptions options;
  float learning_rate = 0.01F;
};

Network mlp() {
  return {"mlp",
          make_model("mlp", {{"hidden", std::vector<int64_t>{32, 16}}}, {1, 8, 8}, 10),
          {1, 8, 8},
          {.batch = 12, .optimizer = AdamOptions{}}};
}
Network convnet() {
  constexpr int64_t kSide = kSanitized ? 4 : 8;
  const Shape sample{1, kSide, kSide};
  return {"convnet",
          make_model("convnet", {}, sample, 10),
          sample,
          {.batch = 12, .optimizer = SgdOptions{.momentum = 0.9, .weight_decay = 1e-4}},
          1e-3F};
}
/// Residual blocks with batch norm. At a usual learning rate, such a network amplifies a rounding error to
/// one percent within a few steps.
Network residual() {
  const Model model{"residual", {3, 8, 8}, DType::f32, [](ModelBuilder& m, ValueId x) {
                      x = relu(m, batch_norm(m, "bn1", residual_convolution(m, "conv1", x, 8, 3, 1)));
                      x = basic_block(m, "block1", max_pool(m, x, {}), 8, 1);
                      x = basic_block(m, "block2", x, 16, 2);
                      return linear(m, "fc", flatten(m, global_average_pool(m, x)), 10);
                    }};
  return {"residual", model, model.sample, {.batch = 6, .optimizer = SgdOptions{.momentum = 0.9}}, 1e-4F};
}

/// The mean losses of the given number of steps.
std::vector<float> losses(Session& session, const Network& network, int64_t steps) {
  std::vector<float> all;
  for (int64_t s = 1; s <= steps; ++s) {
    const Samples samples(network.options.batch, network.sample, 10, static_cast<uint64_t>(s));
    const StepResult result =
        session.train(samples.view(), {.learning_rate = network.learning_rate, .step = s, .epoch = 0});
    EXPECT_TRUE(result.finite);
    all.push_back(static_cast<float>(result.metrics[0] / static_cast<double>(network.options.batch)));
  }
  return all;
}

void expect_follows_single(const Network& network, const SessionSetup& setup, int64_t steps) {
  SCOPED_TRACE(network.name);
  auto session = make_session(network.model, network.options, setup);
  auto single = make_session(network.model, network.options, {.devices = {"cpu"}});
  const auto found = losses(*session, network, steps);
  const auto right = losses(*single, network, steps);
  for (size_t s = 0; s < right.size(); ++s) EXPECT_NEAR(found[s], right[s], 1e-3 * right[s]) << "step " << s;
  for (const StateName& name : single->state_names())
    EXPECT_LT(relative_l2(session->read_state(name), single->read_state(name)), 2e-2) << name.text();
}

TEST(GpuSession, OneGpuFollowsTheProcessor) {
  expect_follows_single(mlp(), {.devices = {"cuda:0"}}, 100);
  expect_follows_single(convnet(), {.devices = {"cuda:0"}},
                        !on_stand_ins() ? 100
                        : kSanitized    ? 6
                                        : 20);  // fakes are slow
  expect_follows_single(residual(), {.devices = {"cuda:0"}}, 20);
}

SessionSetup mirrored(std::vector<std::string> devices) {
  const auto replicas = static_cast<int>(devices.size());
  // Synchronised statistics; without them, batch normalisation differs from strategy `single`.
  return {.replicas = replicas,
          .mirrored = true,
          .devices = std::move(devices),
          .strategy = {{"bucket_mb", 4096.0 / (1 << 20)}, {"batch_norm", "synchronised"}}};
}

TEST(GpuSession, ReplicasThatShareAGpuFollowSingle) {
  expect_follows_single(mlp(), mirrored({"cuda:0", "cuda:0"}), 20);
  expect_follows_single(residual(), mirrored({"cuda:0", "cuda:0"}), 4);
}

TEST(GpuSession, ReplicasOnTwoGpusFollowSingle) {
  if (!has_two_gpus()) GTEST_SKIP() << "one GPU";
  expect_follows_single(mlp(), mirrored({"cuda:0", "cuda:1", "cuda:1"}), 20);
  SessionSetup through_the_host = mirrored({"cuda:0", "cuda:1"});
  through_the_host.session.gpu_exchange = GpuExchange::host;
  expect_follows_single(convnet(), through_the_host, kSanitized ? 3 : 6);
}

TEST(GpuSession, GpusWhoseGradientsNcclSumsFollowSingle) {
  for (const auto& devices : {std::vector<std::string>{"cuda:0"}, {"cuda:0", "cuda:1"}}) {
    if (devices.size() > 1 && !has_two_gpus()) continue;
    SessionSetup setup = mirrored(devices);
    setup.session.gpu_exchange = GpuExchange::nccl;
    EXPECT_TRUE(make_session(mlp().model, mlp().options, setup)->exchanges_by_nccl());
    expect_follows_single(mlp(), setup, 20);
    expect_follows_single(residual(), setup, 4);
  }
  SessionSetup shared = mirrored({"cuda:0", "cuda:0"});
  shared.session.gpu_exchange = GpuExchange::nccl;
  test::expect_error([&] { make_session(mlp().model, mlp().options, shared); },
                     {"NCCL", "several replicas share cuda:0"});
}

TEST(GpuSession, StepsThatRunAheadFollowTheSchedule) {
  const Network network = mlp();
  const auto losses_of = [&](const std::string& strategy, const std::vector<std::string>& devices) {
    Cluster cluster;
    for (const std::string& device : devices) cluster.devices.push_back({device});
    Program program =
        make_strategy(strategy).rewrite(make_training_step(network.model, network.options), cluster);
    for (WorkerProgram& worker : program.kinds)
      for (ScheduledAction& scheduled : worker.schedule)
        if (scheduled.kind == action::kUpdateShard) scheduled.every = 2;
    Session session(std::move(program), cluster, {.seed = 11});
    return losses(session, network, 8);
  };
  const auto right = losses_of("single", {"cpu"});
  const auto expect_right = [&](const std::vector<float>& found) {
    for (size_t s = 0; s < right.size(); ++s)
      EXPECT_NEAR(found[s], right[s], 1e-3 * right[s]) << "step " << s;
  };
  expect_right(losses_of("single", {"cuda:0"}));
  if (has_two_gpus()) expect_right(losses_of("mirrored", {"cuda:0", "cuda:1"}));
}

TEST(GpuSession, NothingIsPreparedWhileNcclHoldsTheGpuUp) {
  if (!on_stand_ins()) GTEST_SKIP() << "runs on fake GPUs only";
  SessionSetup setup = mirrored({"cuda:0", "cuda:1"});
  setup.session.gpu_exchange = GpuExchange::nccl;
  auto session = make_session(mlp().model, mlp().options, setup);
  const test::Fake& fake = test::fake_of_module();
  const int graphs = fake.graphs;
  losses(*session, mlp(), 2);
  for (int64_t step = 3; step <= 6; ++step) {  // no step waits for the previous one
    const Samples samples(8, {1, 8, 8}, 10);   // requires another graph
    session->begin(samples.view(), {.learning_rate = 0.01F, .step = step});
  }
  for (int step = 3; step <= 6; ++step) EXPECT_TRUE(session->finished(true)->finite);
  EXPECT_GE(fake.graphs, graphs + 8) << "were played";
  EXPECT_EQ(fake.graphs_among_sums, 0);
}

TEST(GpuSession, ProcessorsAndGpusTogetherFollowSingle) {
  expect_follows_single(mlp(), mirrored({"cpu", "cuda:0"}), 20);
  expect_follows_single(residual(), mirrored({"cuda:0", "cpu", "cpu"}), 4);
}

TEST(GpuSession, SharesByMeasuredSpeedGiveTheSameGradient) {
  SessionSetup setup = mirrored({"cuda:0", "cpu"});
  setup.session.measured_shares = true;
  expect_follows_single(mlp(), setup, 20);
  auto session = make_session(mlp().model, mlp().options, setup);
  losses(*session, mlp(), 6);
  ASSERT_TRUE(session->mixed_speed());
  EXPECT_GT(session->mixed_speed()->gpus_alone, 0);
}

TEST(GpuSession, TheSameJobGivesTheSameBitsTwice) {
  const Network network = convnet();
  auto once = make_session(network.model, network.options, {.devices = {"cuda:0"}});
  auto again = make_session(network.model, network.options, {.devices = {"cuda:0"}});
  constexpr int64_t kSteps = kSanitized ? 2 : 5;
  EXPECT_EQ(losses(*once, network, kSteps), losses(*again, network, kSteps));
  for (const StateName& name : once->state_names())
    EXPECT_EQ(once->read_state(name), again->read_state(name)) << name.text();
}

TEST(GpuSession, StateMovesBetweenProcessorsAndGpus) {
  const Network network = convnet();
  auto processor = make_session(network.model, network.options, {.devices = {"cpu"}});
  auto gpu = make_session(network.model, network.options, {.devices = {"cuda:0"}});
  auto both = make_session(network.model, network.options, mirrored({"cuda:0", "cpu"}));
  for (const StateName& name : processor->state_names()) {
    std::vector<float> values(static_cast<size_t>(processor->state_shape(name).elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000) + 0.5F;
    gpu->write_state(name, values);
    EXPECT_EQ(gpu->read_state(name), values) << name.text();
    both->write_state(name, gpu->read_state(name));
    EXPECT_EQ(both->read_state(name), values) << name.text();
  }
}

TEST(GpuSession, ALossThatIsNotFiniteUpdatesNothingAndIsTracedToItsLayer) {
  const Network network = mlp();
  auto session = make_session(network.model, network.options, {.devices = {"cuda:0"}});
  session->write_state("fc2.weight", std::vector<float>(16 * 32, 1e38F));
  session->write_state("fc1.bias", std::vector<float>(32, 1e3F));
  const Samples samples(12, {1, 8, 8}, 10);
  const StepInputs inputs{.learning_rate = 0.1F, .step = 1, .epoch = 0};
  const auto before = session->read_state("fc1.weight");
  EXPECT_FALSE(session->train(samples.view(), inputs).finite);
  EXPECT_EQ(session->read_state("fc1.weight"), before);
  EXPECT_EQ(session->find_non_finite(samples.view(), inputs), "layer 'fc2' (linear)");
  session->initialise();
  EXPECT_TRUE(session->train(samples.view(), inputs).finite);
}

TEST(GpuSession, ABatchThatDoesNotFitLeavesTheSessionToSmallerOnes) {
  if (!on_stand_ins()) GTEST_SKIP() << "runs on fake GPUs only";
  const Network network = mlp();
  auto session = make_session(network.model, network.options, {.devices = {"cuda:0"}});
  const StepInputs inputs{.learning_rate = 0.01F, .step = 1, .epoch = 0};
  const Samples small(12, network.sample, 10);
  EXPECT_TRUE(session->train(small.view(), inputs).finite);
  BatchView large = small.view();
  large.size = 20'000'000;  // its samples are never read
  test::expect_error([&] { session->train(large, inputs); }, {"cuda:0 has not enough memory", "a batch of "},
                     Error::Kind::run);
  EXPECT_TRUE(session->train(small.view(), inputs).finite);
  const Samples between(50, network.sample, 10);
  EXPECT_TRUE(session->train(between.view(), inputs).finite);
}

TEST(GpuSession, EvaluatesAndPredictsAsTheProcessor) {
  const Network network = residual();
  auto gpu = make_session(network.model, network.options, {.devices = {"cuda:0"}});
  auto processor = make_session(network.model, network.options, {.devices = {"cpu"}});
  const Samples samples(6, network.sample, 10);
  EXPECT_NEAR(gpu->evaluate(samples.view())[0], processor->evaluate(samples.view())[0], 1e-3);
  EXPECT_LT(relative_l2(gpu->predict(samples.view()), processor->predict(samples.view())), 1e-4);
}

TEST(GpuSession, APipelineIsForProcessors) {
  const Network network = mlp();
  test::expect_error(
      [&] {
        make_session(network.model, network.options,
                     {.replicas = 2, .pipeline = true, .devices = {"cuda:0", "cuda:0"}});
      },
      {"the stages of a pipeline run on CPUs", "cuda:0"});
}

}  // namespace
}  // namespace telar
