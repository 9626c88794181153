#include "telar/graph/actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "runtime/models.h"
#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/comm/store/local_store.h"
#include "telar/runtime/server_state.h"
#include "telar/runtime/server_update.h"

namespace telar {
namespace {

using test::Samples;
using test::says;
using test::sentence_of;
using Schedule = std::vector<ScheduledAction>;

/// The sequential program with another schedule.
std::unique_ptr<Session> session_with(const Schedule& schedule) {
  Program program = sequential_program(make_training_step(
      make_model("mlp", {{"hidden", std::vector<int64_t>{16}}}, {1, 4, 4}, 10), {.batch = 8}));
  program.kinds.front().schedule = schedule;
  Cluster cluster;
  cluster.devices = {{test::tested_kind(), 1, {}}};
  return std::make_unique<Session>(std::move(program), cluster, SessionOptions{.seed = 11});
}

StepResult train(Session& session, int64_t step) {
  const Samples samples(8, {1, 4, 4}, 10, static_cast<uint64_t>(step));
  return session.train(samples.view(), {.learning_rate = 0.1F, .step = step, .epoch = 0});
}

std::string refusal(const Schedule& schedule) {
  return sentence_of([&] { session_with(schedule); }, Error::Kind::run);
}

TEST(Actions, AreDoneInTheStepsOfTheirPeriod) {
  ScheduledAction update = action::update_shard();
  update.every = 3;
  auto session = session_with({action::compute_gradient(), update});
  for (int64_t step = 1; step <= 6; ++step) {
    const auto before = session->read_state("fc1.weight");
    EXPECT_GT(train(*session, step).metrics[0], 0);
    EXPECT_EQ(session->read_state("fc1.weight") == before, step % 3 != 0) << "step " << step;
  }
}

TEST(Actions, CountTheStepsOfTheJobNotOfTheWorker) {
  ScheduledAction update = action::update_shard();
  update.every = 3;
  auto resumed = session_with({action::compute_gradient(), update});
  for (int64_t step = 2; step <= 6; ++step) {
    const auto before = resumed->read_state("fc1.weight");
    train(*resumed, step);
    EXPECT_EQ(resumed->read_state("fc1.weight") == before, step % 3 != 0) << "step " << step;
  }
}

TEST(Actions, OfAGroupOfOneChangeNothing) {
  auto plain = session_with({action::compute_gradient(), action::update_shard()});
  auto alone =
      session_with({action::compute_gradient(), action::finish_exchange(), action::exchange_metrics(),
                    action::exchange_norm(), action::update_shard(), action::wait_for_all()});
  for (int64_t step = 1; step <= 3; ++step)
    EXPECT_EQ(train(*alone, step).metrics, train(*plain, step).metrics) << "step " << step;
  EXPECT_EQ(alone->read_state("fc1.weight"), plain->read_state("fc1.weight"));
}

TEST(Actions, ThatAWorkerCannotPerformAreRefused) {
  EXPECT_TRUE(says(refusal({{.kind = ActionKind("sing")}}), "the action 'sing'"));
  EXPECT_TRUE(says(refusal({action::forward(0)}), "a replica cannot perform 'forward'"));
  EXPECT_TRUE(says(refusal({action::pull()}), "'pull' exchanges with the store 'servers'"));
  ScheduledAction metrics = action::exchange_metrics();
  metrics.group = "data";
  EXPECT_TRUE(says(refusal({metrics}), "no group 'data'"));
}

TEST(Actions, ExchangeWithTheStoreThatTheyName) {
  const Cluster cluster{.devices = {{test::tested_kind(), 1, {}}}, .servers = 1};
  Program program = make_strategy("async_sgd")
                        .rewrite(make_training_step(
                                     make_model("mlp", {{"hidden", std::vector<int64_t>{16}}}, {1, 4, 4}, 10),
                                     {.batch = 8}),
                                 cluster);
  program.stores.at(0).name = "attic";
  LocalStoreServer server(program_updates());
  const auto own = server.connect(0);
  create_servers(only_store(program), {own.get()});
  uint32_t members = 0;
  const auto trained = [&] {
    const auto store = server.connect(++members);
    const StoreAccess access{{store.get()}, {}};
    Session session(program, cluster, {.seed = 11, .store = &access});
    write_servers(only_store(program), {own.get()}, session, 0);
    return train(session, 1).fate;
  };
  EXPECT_TRUE(says(sentence_of([&] { trained(); }, Error::Kind::run), "exchanges with the store 'servers'"));
  for (ScheduledAction& scheduled : program.kinds.front().schedule)
    if (!scheduled.store.empty()) scheduled.store = "attic";
  EXPECT_EQ(trained(), StepResult::Fate::used);
}

TEST(Holdings, DecideTheOrderOfTheState) {
  const TrainingStep step = make_training_step(
      make_model("mlp", {{"hidden", std::vector<int64_t>{16}}}, {1, 4, 4}, 10), {.batch = 8});
  Cluster cluster;
  cluster.devices = {{test::tested_kind(), 1, {}}};
  Program turned = sequential_program(step);
  std::ranges::reverse(turned.kinds.front().holdings);
  Session session(turned, cluster, {.seed = 11});
  Session plain(sequential_program(step), cluster, {.seed = 11});
  for (int64_t s = 1; s <= 2; ++s) EXPECT_EQ(train(session, s).metrics, train(plain, s).metrics);
  EXPECT_EQ(test::all_state(session), test::all_state(plain));
}

TEST(Holdings, OfWorkersThatShareAMemoryAreTheSame) {
  Cluster cluster;
  cluster.devices = {{}, {}};
  Program program =
      make_strategy("mirrored").rewrite(make_training_step(test::convnet(), {.batch = 8}), cluster);
  program.kinds.push_back(program.kinds[0]);
  program.kinds[1].holdings.pop_back();
  program.kind_of_worker = {0, 1};
  EXPECT_TRUE(says(sentence_of([&] { Session(std::move(program), cluster, {}); }, Error::Kind::run),
                   "workers 0 and 1 share a memory, but do not keep the same"));
}

TEST(Actions, OfAStageTakeTheMicroBatchesInOrder) {
  const auto refused = [](const Schedule& schedule) {
    Cluster cluster;
    cluster.devices = {{}};
    Program program = make_strategy("pipeline", {{"stages", int64_t{1}}, {"micro_batches", int64_t{2}}})
                          .rewrite(make_training_step(test::convnet(), {.batch = 8}), cluster);
    program.kinds.front().schedule = schedule;
    return sentence_of([&] { Session(std::move(program), cluster, {}); }, Error::Kind::run);
  };
  using action::backward;
  using action::forward;
  EXPECT_EQ(refused({forward(0), forward(1), backward(0), backward(1)}), "");
  EXPECT_TRUE(says(refused({forward(1), backward(1)}), "'forward 1' is out of order"));
  EXPECT_TRUE(says(refused({backward(0), forward(0)}), "'backward 0' is out of order"));
  EXPECT_TRUE(says(refused({forward(0), backward(0)}), "1 of the 2 micro-batches"));
  EXPECT_TRUE(says(refused({action::compute_gradient(), forward(0), backward(0), forward(1), backward(1)}),
                   "a pipeline stage cannot perform 'compute_gradient'"));
}

}  // namespace
}  // namespace telar
