#include "telar/train/worker_loop.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <utility>

#include "support/make_session.h"
#include "support/memory_log.h"
#include "telar/comm/store/local_store.h"
#include "telar/data/streams/stream_batches.h"
#include "telar/data/synthetic.h"
#include "telar/nn/zoo.h"
#include "telar/runtime/server_state.h"
#include "telar/runtime/server_update.h"
#include "telar/strategy/server_side.h"

namespace telar {
namespace {

/// A coordinator that gives out these leases, one after the other.
class Script final : public WorkSource {
 public:
  Script(uint32_t id, std::deque<Lease> leases) : id_(id), leases_(std::move(leases)) {}
  uint32_t id() const override { return id_; }
  bool lost() const override { return false; }
  bool wait_for_work() override { return !leases_.empty(); }
  std::optional<Lease> lease() override {
    if (const auto happens = std::exchange(before_lease, {})) happens();
    if (leases_.empty()) return std::nullopt;
    const Lease next = leases_.front();
    leases_.pop_front();
    return next;
  }
  void done(const PartDone& part) override { steps.emplace_back(part.lease, part.step); }
  void give_back(uint64_t, int64_t) override { ADD_FAILURE(); }
  std::optional<RoundAnswer> next_round(int64_t, const std::set<uint64_t>&) override { return std::nullopt; }
  std::optional<Lease> wait_for_turn(int64_t) override { return std::nullopt; }
  void fail_all(const std::string& sentence) override { ADD_FAILURE() << sentence; }

  std::vector<std::pair<uint64_t, int64_t>> steps;
  std::function<void()> before_lease;  ///< happens before the first one

 private:
  uint32_t id_;
  std::deque<Lease> leases_;
};

/// Expects that workers with these leases, one after the other, train what one process does in some epochs.
void expect_trained(std::vector<Script*> workers, int64_t epochs) {
  const Cluster cluster{.devices = {DeviceSpec{}}, .servers = 1};
  StepOptions options;
  options.batch = 8;
  const TrainingStep step =
      make_training_step(make_model("mlp", {{"hidden", std::vector<int64_t>{4}}}, {6}, 3), options);
  const DatasetPtr data = synthetic({.samples = 30, .features = {6}, .classes = 3, .seed = 3});
  TrainerOptions training;
  training.epochs = epochs;
  training.batch = 8;
  training.schedule.base = 0.05;

  Session expected(make_strategy("single").rewrite(step, cluster), cluster, {.seed = 2});
  const Program program = make_strategy("async_sgd").rewrite(step, cluster);
  LocalStoreServer server(program_updates());
  const auto own = server.connect(0);
  create_servers(only_store(program), {own.get()});
  write_servers(only_store(program), {own.get()}, expected, 0);
  Trainer(expected, training).fit(*data, nullptr);

  for (Script* worker : workers) {
    const auto store = server.connect(worker->id());
    const StoreAccess access{{store.get()}, {}};
    Session session(program, cluster, {.seed = 2, .store = &access});
    LeasedDataset batches(*data, training.batch, training.seed, training.shuffle, 1);
    WorkerLoop(*worker, session, batches, 4, training, 1).run();
  }
  Session trained(coordinator_program(program), cluster, {.seed = 2});
  read_servers(only_store(program), {own.get()}, trained);
  for (const StateName& name : expected.state_names())
    EXPECT_LT(test::relative_l2(trained.read_state(name), expected.read_state(name)), 1e-5) << name.text();
}

/// The next epoch may begin between a worker's last report and its next question.
TEST(WorkerLoop, AnEpochThatBeginsAtOnceHasItsOwnOrderOfSamples) {
  Script script(1, {{.id = 1, .epoch = 0, .begin = 0, .end = 3, .works = {1, 2, 3}},
                    {.id = 2, .epoch = 0, .begin = 3, .end = 4, .works = {4}},
                    {.id = 3, .epoch = 1, .begin = 0, .end = 4, .works = {5, 6, 7, 8}}});
  expect_trained({&script}, 2);
  EXPECT_EQ(script.steps, (std::vector<std::pair<uint64_t, int64_t>>{
                              {1, 0}, {1, 1}, {1, 2}, {2, 3}, {3, 0}, {3, 1}, {3, 2}, {3, 3}}));
}

/// A worker that is killed between its push and its report has done work that another one gets.
TEST(WorkerLoop, WorkWhoseReportWasLostIsNotAppliedAgain) {
  Script killed(1, {{.id = 1, .epoch = 0, .begin = 0, .end = 3, .works = {1, 2, 3}}});
  Script other(2, {{.id = 2, .epoch = 0, .begin = 1, .end = 4, .works = {2, 3, 4}}});
  expect_trained({&killed, &other}, 1);
  EXPECT_EQ(other.steps, (std::vector<std::pair<uint64_t, int64_t>>{{2, 1}, {2, 2}, {2, 3}}));
}

/// The parameters of the servers after workers with these leases, one after the other, in an epoch of 4
/// steps.
std::vector<float> trained_with(const std::string& strategy, const Attributes& options,
                                std::vector<Script*> workers) {
  const Cluster cluster{.devices = {DeviceSpec{}}, .servers = 1};
  const TrainingStep step =
      make_training_step(make_model("mlp", {{"hidden", std::vector<int64_t>{4}}}, {6}, 3), {.batch = 8});
  const DatasetPtr data = synthetic({.samples = 30, .features = {6}, .classes = 3, .seed = 3});
  TrainerOptions training;
  training.epochs = 1;
  training.batch = 8;
  training.schedule.base = 0.05;
  const Program program = make_strategy(strategy, options).rewrite(step, cluster);
  LocalStoreServer server(program_updates());
  const auto own = server.connect(0);
  create_servers(only_store(program), {own.get()});
  Session start(coordinator_program(program), cluster, {.seed = 2});
  write_servers(only_store(program), {own.get()}, start, 0);
  for (Script* worker : workers) {
    const auto store = server.connect(worker->id());
    const StoreAccess access{{store.get()}, {}};
    Session session(program, cluster, {.seed = 2, .store = &access});
    LeasedDataset batches(*data, training.batch, training.seed, training.shuffle, 1);
    WorkerLoop(*worker, session, batches, 4, training, 1).run();
  }
  read_servers(only_store(program), {own.get()}, start);
  return start.read_state("fc1.weight");
}

/// After a worker was told that there is work, others may end the epoch, and it gets a lease of the next one.
TEST(WorkerLoop, TheParametersAreReadWhenThereIsALease) {
  const Cluster cluster{.devices = {DeviceSpec{}}, .servers = 1};
  const TrainingStep step =
      make_training_step(make_model("mlp", {{"hidden", std::vector<int64_t>{4}}}, {6}, 3), {.batch = 8});
  const DatasetPtr data = synthetic({.samples = 30, .features = {6}, .classes = 3, .seed = 3});
  TrainerOptions training;
  training.batch = 8;
  training.schedule.base = 0.05;
  const Program program = make_strategy("async_sgd").rewrite(step, cluster);
  std::vector<std::vector<float>> trained;
  for (const bool late : {false, true}) {
    LocalStoreServer server(program_updates());
    const auto own = server.connect(0);
    create_servers(only_store(program), {own.get()});
    Session before(coordinator_program(program), cluster, {.seed = 2});
    Session after(coordinator_program(program), cluster, {.seed = 5});
    write_servers(only_store(program), {own.get()}, late ? before : after, 0);
    Script worker(1, {{.id = 1, .epoch = 1, .begin = 0, .end = 1, .works = {5}}});
    if (late) worker.before_lease = [&] { write_servers(only_store(program), {own.get()}, after, 0); };
    const auto store = server.connect(worker.id());
    const StoreAccess access{{store.get()}, {}};
    Session session(program, cluster, {.seed = 2, .store = &access});
    LeasedDataset batches(*data, training.batch, training.seed, training.shuffle, 1);
    WorkerLoop(worker, session, batches, 4, training, 1).run();
    read_servers(only_store(program), {own.get()}, before);
    trained.push_back(before.read_state("fc1.weight"));
  }
  EXPECT_EQ(trained[0], trained[1]);
}

/// Of a push of several batches, some reports may be lost.
TEST(WorkerLoop, APieceOfSeveralBatchesIsPushedOnceAndAtItsEnd) {
  const std::vector<std::pair<std::string, Attributes>> strategies = {
      {"downpour", {{"push_every", int64_t{2}}}}, {"async_local_sgd", {{"average_every", int64_t{2}}}}};
  for (const auto& [strategy, options] : strategies) {
    Script whole(1, {{.id = 1, .epoch = 0, .begin = 0, .end = 4, .works = {1, 1, 2, 2}}});
    Script killed(1, {{.id = 1, .epoch = 0, .begin = 0, .end = 2, .works = {1, 1}}});
    Script other(2, {{.id = 2, .epoch = 0, .begin = 1, .end = 4, .works = {1, 2, 2}}});
    Script halves(1, {{.id = 1, .epoch = 0, .begin = 0, .end = 4, .works = {1, 1, 1, 2}}});
    const std::vector<float> expected = trained_with(strategy, options, {&whole});
    EXPECT_EQ(trained_with(strategy, options, {&killed, &other}), expected) << strategy;
    // Of differences, one worker's pieces make none.
    EXPECT_EQ(trained_with(strategy, options, {&halves}) == expected, strategy == "async_local_sgd")
        << strategy;
  }
}

/// A batch of a stream has no samples if all of its messages are damaged.
TEST(WorkerLoop, ABatchWithoutSamplesIsAStepThatChangesNothingAsWithoutServers) {
  const DatasetPtr data = synthetic({.samples = 30, .features = {6}, .classes = 3, .seed = 3});
  MessageFormat format;
  format.spec = data->spec();
  test::MemoryTopic topic(1);
  std::vector<std::byte> features(data->spec().feature_bytes());
  std::vector<std::byte> label(data->spec().label_bytes());
  std::string message;
  for (int64_t n = 0; n < data->size(); ++n) {
    data->read(n, {}, features, label);
    encode_message(format, features, label, message);
    topic.add(0, n / 8 == 1 ? "damaged" : message);
  }
  StreamOptions opened{.format = format, .batch = 8, .starts = {0}, .ends = {30}, .skip_damaged = true};
  const auto open = [&] {
    return std::make_shared<StreamBatches>(std::make_unique<test::MemoryLog>(topic), opened);
  };
  const StreamPtr stream = open();
  std::vector<std::string> places;
  for (int64_t step = 0; step <= 4; ++step) places.push_back(stream->skip(stream->begin(0), step).bytes);

  const Cluster cluster{.devices = {DeviceSpec{}}, .servers = 1};
  StepOptions options;
  options.batch = 8;
  options.optimizer = AdamOptions{};
  const TrainingStep step =
      make_training_step(make_model("mlp", {{"hidden", std::vector<int64_t>{4}}}, {6}, 3), options);
  TrainerOptions training;
  training.epochs = 1;
  training.batch = 8;
  training.schedule.base = 0.05;
  for (const char* strategy : {"async_sgd", "downpour"}) {
    Session expected(make_strategy("single").rewrite(step, cluster), cluster, {.seed = 2});
    const Program program = make_strategy(strategy).rewrite(step, cluster);
    LocalStoreServer server(program_updates());
    const auto own = server.connect(0);
    create_servers(only_store(program), {own.get()});
    write_servers(only_store(program), {own.get()}, expected, 0);
    Trainer(expected, training).fit(*open(), nullptr);

    Script worker(1, {{.id = 1, .epoch = 0, .begin = 0, .end = 4, .works = {1, 2, 3, 4}, .places = places}});
    const auto store = server.connect(worker.id());
    const StoreAccess access{{store.get()}, {}};
    Session session(program, cluster, {.seed = 2, .store = &access});
    LeasedStream batches(open(), 1);
    WorkerLoop(worker, session, batches, 4, training, 1).run();
    EXPECT_EQ(worker.steps.size(), 4U);

    Session trained(coordinator_program(program), cluster, {.seed = 2});
    read_servers(only_store(program), {own.get()}, trained);
    for (const StateName& name : expected.state_names())
      EXPECT_LT(test::relative_l2(trained.read_state(name), expected.read_state(name)), 1e-5)
          << strategy << " " << name.text();
  }
}

}  // namespace
}  // namespace telar
