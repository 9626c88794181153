// Parameters whose names look like those of gradients, metrics and optimizer state are trained and stored
// like any others.
#include <gtest/gtest.h>

#include <map>

#include "io/temp_folder.h"
#include "support/make_session.h"
#include "support/sanitizers.h"
#include "telar/data/synthetic.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/linear.h"
#include "telar/io/safetensors.h"
#include "telar/nn/layers.h"
#include "telar/strategy/server_side.h"
#include "telar/train/checkpoint.h"
#include "telar/train/thread_cluster.h"

namespace telar {
namespace {

using Names = std::vector<std::string>;

const Names kPlainNames = {"a", "b", "c", "d", "e", "norm"};
const Names kConfusingNames = {"w", "gradient/w", "momentum/w", "metric/loss", "loss", "gradient/momentum/w"};

/// Five layers of equal size and a batch norm, with these names.
Model named_network(const Names& names) {
  return {"named", {8}, DType::f32, [names](ModelBuilder& m, ValueId x) {
            for (size_t i = 0; i + 1 < names.size(); ++i) {
              const Initializer initial{Initializer::Kind::uniform, -0.5, 0.5};
              x = linear(m, x, m.parameter(names[i], {8, 8}, initial), kNoValue);
              if (i == 1) x = batch_norm(m, names.back(), x);
              if (i + 2 < names.size()) x = tanh(m, x);
            }
            return x;
          }};
}

const StepOptions kNamedStep{.batch = 8, .optimizer = SgdOptions{.momentum = 0.9}};

/// A strategy, with its options, and its number of workers.
struct Trainable {
  std::string strategy = "single";
  int workers = 1;
  Attributes options = {};
};

const std::vector<Trainable> kTrainables = {
    {},
    {"mirrored", 2},
    {"pipeline", 2, {{"micro_batches", int64_t{2}}}},
    {"sharded", 2, {{"stage", int64_t{1}}}},
    {"sharded", 2, {{"stage", int64_t{3}}, {"whole_below", int64_t{8}}, {"bucket_mb", 1e-4}}},
    {"tensor", 2, {{"split", Names{"*=columns"}}}},
    {"hybrid",
     4,
     {{"data", int64_t{2}}, {"model", int64_t{1}}, {"stages", int64_t{2}}, {"micro_batches", int64_t{2}}}}};

std::unique_ptr<Session> named_session(const Names& names, const Trainable& trainable) {
  return test::make_session(
      named_network(names), kNamedStep,
      {.replicas = trainable.workers, .name = trainable.strategy, .strategy = trainable.options});
}

/// Initial values depend on names.
void copy_parameters(const Session& from, Session& to) {
  const auto& names = from.program().parameters;
  for (size_t p = 0; p < names.size(); ++p)
    to.write_state(to.program().parameters[p].name, from.read_state(names[p].name));
}

std::vector<float> trained_state(Session& session) {
  const test::Samples samples(8, {8}, 8);
  for (int64_t s = 1; s <= 3; ++s) session.train(samples.view(), {.learning_rate = 0.05F, .step = s});
  std::vector<float> state = test::all_state(session);
  const auto gradients = test::all_gradients(session);
  state.insert(state.end(), gradients.begin(), gradients.end());
  for (const double metric : session.evaluate(samples.view())) state.push_back(static_cast<float>(metric));
  return state;
}

TEST(ConfusingNames, GiveTheSameBitsAsPlainOnesUnderEveryStrategy) {
  for (const Trainable& trainable : kTrainables) {
    const auto plain = named_session(kPlainNames, trainable);
    const auto confusing = named_session(kConfusingNames, trainable);
    copy_parameters(*plain, *confusing);
    EXPECT_EQ(trained_state(*confusing), trained_state(*plain)) << trainable.strategy;
  }
}

TEST(ConfusingNames, AreKeptApartInCheckpoints) {
  const auto written = named_session(kConfusingNames, kTrainables[1]);
  trained_state(*written);
  const test::TempFolder folder;
  TrainingState state;
  state.step = 3;
  write_checkpoint(folder / "step-00000003", checkpoint_tensors(*written), state);
  const SafetensorsFile model(folder / "step-00000003" / "model.safetensors");
  EXPECT_TRUE(model.has("momentum/w"));
  EXPECT_EQ(model.read("momentum/w").data, written->read_state("momentum/w"));
  const SafetensorsFile optimizer(folder / "step-00000003" / "optimizer.safetensors");
  EXPECT_TRUE(optimizer.has("momentum/gradient/w"));
  EXPECT_NE(optimizer.read("momentum/w").data, model.read("momentum/w").data);
  for (const Trainable& trainable : {kTrainables[0], kTrainables[5]}) {
    const auto read = named_session(kConfusingNames, trainable);
    load_all(folder / "step-00000003", *read);
    for (const auto& name : written->state_names())
      EXPECT_EQ(read->read_state(name), written->read_state(name)) << trainable.strategy;
  }
}

std::vector<float> trained_on_servers(const Names& names) {
  const Cluster one{.devices = {DeviceSpec{}}, .servers = 2};
  const Program program = make_strategy("sync_ps", {{"placement", "partitioned"}})
                              .rewrite(make_training_step(named_network(names), kNamedStep), one);
  const DatasetPtr data = synthetic({.samples = 40, .features = {8}, .classes = 8, .seed = 7});
  TrainerOptions options;
  options.epochs = 1;
  options.schedule.base = 0.05;
  Session session(coordinator_program(program), one, {.seed = 5});
  copy_parameters(*named_session(kPlainNames, {}), session);
  ThreadCluster cluster(program, one, *data, options, {.workers = 1});
  cluster.start(session);
  Trainer trainer(session, options);
  trainer.make_steps_with(cluster);
  trainer.fit(*data, nullptr);
  return test::all_state(session);
}

TEST(ConfusingNames, AreKeptApartOnServers) {
  EXPECT_EQ(trained_on_servers(kConfusingNames), trained_on_servers(kPlainNames));
}

}  // namespace
}  // namespace telar
