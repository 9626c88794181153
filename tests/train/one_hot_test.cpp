#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "copied_servers.h"
#include "support/make_session.h"
#include "support/memory_log.h"
#include "telar/comm/members/coordinator.h"
#include "telar/comm/members/membership.h"
#include "telar/comm/store/local_store.h"
#include "telar/data/streams/stream_batches.h"
#include "telar/nn/layers.h"
#include "telar/runtime/server_state.h"
#include "telar/runtime/server_update.h"
#include "telar/strategy/server_side.h"
#include "telar/train/stream_work.h"
#include "telar/train/work_division.h"
#include "telar/train/worker_loop.h"

// A sample is one-hot, and there are two weights for it, w. Its loss is the mean of (w − 1)² over both, so
// the gradient of a weight is w − 1 in the sample's loss, and 0 in those of others. Whatever a strategy does,
// a sample that counts once in an epoch multiplies 1 − w by a factor that follows from the learning rate η,
// and one that counts twice, or never, shows:
//
// - A mean over a batch of n samples: 1 − η/n. So it is if the gradients of several batches are pushed
//   together: each counts as if it had been pushed alone, and one without samples not at all.
// - Averaging: a worker multiplies 1 − w by 1 − η/m in the part of m samples of a batch. Of all N samples of
//   a piece of work, its part has M, and so that weight in the mean: 1 − M/N · η/m. With P equal parts, M/N
//   is 1/P and m is n/P: 1 − η/n again.
//
// The same holds if one worker computes several parts, and if it takes over a part of a worker that has left.

namespace telar {
namespace {

constexpr double kRate = 0.4;
constexpr int64_t kBatch = 4;
constexpr int64_t kOutputs = 2;
constexpr uint32_t kEpochs = 3;
const Cluster kTwoServers{.devices = {DeviceSpec{}}, .servers = 2};

/// Where a worker vanishes.
enum class Vanishes : uint8_t {
  never,
  computed,  ///< it has computed its part
  granted,   ///< it is in a round, and has pushed nothing
  between,   ///< it has pushed to one of two servers
  pushed     ///< it has pushed, and reported nothing
};

struct Situation {
  std::string name;
  int64_t here = 0;  ///< workers that come
  Vanishes first = Vanishes::never;
  bool returns = false;
  int kill_every = 0;  ///< a server with copies is killed at each such push; 0: servers have no copies
};

struct Probed {
  std::string strategy;
  Attributes options;
  int64_t workers = 2;
  int64_t samples = 0;
  bool topic = false;
  bool damaged = false;  ///< of the topic: the second batch is one of damaged messages
};

class OneHot final : public Dataset {
 public:
  explicit OneHot(int64_t samples) : samples_(samples) {
    spec_.features = {samples};
    spec_.labels = {kOutputs};
  }
  int64_t size() const override { return samples_; }
  const SampleSpec& spec() const override { return spec_; }
  void read(int64_t index, const SampleKey&, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    std::ranges::fill(as_floats(features), 0.0F);
    as_floats(features)[static_cast<size_t>(index)] = 1;
    std::ranges::fill(as_floats(label), 1.0F);
  }

 private:
  int64_t samples_;
  SampleSpec spec_;
};

struct Vanished final : std::runtime_error {
  Vanished() : std::runtime_error("the worker vanishes") {}
};

/// A coordinator whose member vanishes the third time that it is there.
class Vanishing final : public WorkSource {
 public:
  Vanishing(WorkSource& source, Vanishes where) : source_(source), where_(where) {}

  uint32_t id() const override { return source_.id(); }
  bool lost() const override { return source_.lost(); }
  bool wait_for_work() override { return source_.wait_for_work(); }
  std::optional<Lease> lease() override { return source_.lease(); }
  void done(const PartDone& part) override {
    at(Vanishes::pushed);
    source_.done(part);
  }
  void give_back(uint64_t lease, int64_t step) override { source_.give_back(lease, step); }
  std::optional<RoundAnswer> next_round(int64_t work, const std::set<uint64_t>& leases) override {
    at(Vanishes::computed);
    auto answer = source_.next_round(work, leases);
    if (answer && std::holds_alternative<StoreRound>(*answer)) at(Vanishes::granted);
    return answer;
  }
  std::optional<Lease> wait_for_turn(int64_t work) override { return source_.wait_for_turn(work); }
  void fail_all(const std::string& sentence) override { source_.fail_all(sentence); }

  void at(Vanishes where) {
    if (where == where_ && --left_ == 0) throw Vanished();
  }

 private:
  WorkSource& source_;
  Vanishes where_;
  int left_ = 3;
};

/// The second server's store of a worker that may vanish before it pushes to it.
class SecondStore final : public Store {
 public:
  SecondStore(std::unique_ptr<Store> store, Vanishing& worker) : store_(std::move(store)), worker_(worker) {}

  bool create(const StoreLayout& layout, const std::string& description) override {
    return store_->create(layout, description);
  }
  const StoreLayout& layout() override { return store_->layout(); }
  const StoreLayout& attach() override { return store_->attach(); }
  std::vector<std::string> slots() override { return store_->slots(); }
  int64_t read(const std::string& arena, std::span<float> values) override {
    return store_->read(arena, values);
  }
  void write(const std::string& arena, std::span<const float> values, int64_t updates) override {
    store_->write(arena, values, updates);
  }
  std::span<float> outgoing() override { return store_->outgoing(); }
  std::span<const float> incoming() const override { return std::as_const(*store_).incoming(); }
  void start(const StoreExchange& exchange) override {
    if (exchange.push) worker_.at(Vanishes::between);
    store_->start(exchange);
  }
  StoreReport finish() override { return store_->finish(); }

 private:
  std::unique_ptr<Store> store_;
  Vanishing& worker_;
};

class Probe {
 public:
  Probe(Probed probed, Situation situation)
      : probed_(std::move(probed)),
        situation_(std::move(situation)),
        data_(probed_.samples),
        topic_(3),
        program_(make_program()) {
    if (situation_.kill_every > 0)
      copied_.emplace(only_store(program_));
    else
      for (size_t s = 0; s < 2; ++s)
        servers_.push_back(std::make_unique<LocalStoreServer>(program_updates()));
    format_.spec = data_.spec();
    std::vector<std::byte> features(format_.spec.feature_bytes());
    std::vector<std::byte> label(format_.spec.label_bytes());
    std::string message;
    for (int64_t n = 0; n < data_.size(); ++n) {
      data_.read(n, {}, features, label);
      encode_message(format_, features, label, message);
      for (int64_t bad = 0; n == kBatch && bad < damaged(); ++bad) add_message("damaged");
      add_message(message);
    }
    options_.batch = kBatch;
    options_.schedule.base = kRate;
    options_.shuffle = false;
    options_.loader_threads = 1;
  }

  void expect_every_sample_once() {
    Session session(coordinator_program(program_), kTwoServers, {.seed = 3});
    std::vector<std::unique_ptr<Store>> own;
    std::vector<Store*> stores;
    for (size_t s = 0; s < 2; ++s) stores.push_back(own.emplace_back(connect(s, 0)).get());
    create_servers(only_store(program_), stores);
    write_servers(only_store(program_), stores, session, 0);
    const std::vector<float> before = session.read_state("w.weight");
    if (copied_) copied_->copy(situation_.kill_every);
    train();
    if (copied_) {
      EXPECT_GE(copied_->spare(), 2) << "servers that were killed";
    }
    const int64_t updates = read_servers(only_store(program_), stores, session);
    const std::vector<float> after = session.read_state("w.weight");
    for (int64_t n = 0; n < probed_.samples; ++n)
      for (int64_t output = 0; output < kOutputs; ++output) {
        const auto i = static_cast<size_t>(output * probed_.samples + n);
        const double factor = (1.0 - static_cast<double>(after[i])) / (1.0 - static_cast<double>(before[i]));
        EXPECT_NEAR(factor, std::pow(expected_factor(n), kEpochs), 1e-4) << "sample " << n;
      }
    if (program_.cooperation.kind == Cooperation::Kind::rounds) {
      const int64_t work = program_.cooperation.work_steps;
      EXPECT_EQ(updates, kEpochs * ((steps() + work - 1) / work)) << "an update of each piece of work";
    }
  }

 private:
  std::unique_ptr<Store> connect(size_t server, uint32_t member) {
    return copied_ ? copied_->connect(server, member) : servers_[server]->connect(member);
  }

  static Model model(int64_t samples) {
    return {"one-hot", {samples}, DType::f32, [](ModelBuilder& m, ValueId x) {
              return linear(m, "w", x, kOutputs, false);
            }};
  }

  Program make_program() const {
    StepOptions options;
    options.batch = kBatch;
    options.loss = Loss::mean_squared_error;
    Attributes attributes = probed_.options;
    attributes.set("placement", "partitioned");
    return make_strategy(probed_.strategy, attributes)
        .rewrite(make_training_step(model(probed_.samples), options), kTwoServers);
  }

  int64_t damaged() const { return probed_.damaged ? kBatch : 0; }
  int64_t messages() const { return probed_.samples + damaged(); }
  int64_t steps() const { return (messages() + kBatch - 1) / kBatch; }
  void add_message(const std::string& message) { topic_.add(static_cast<size_t>(added_++ % 3), message); }

  /// Samples in a step.
  int64_t size_of(int64_t step) const {
    return probed_.damaged && step == 1 ? 0 : std::min(kBatch, messages() - step * kBatch);
  }

  double expected_factor(int64_t sample) const {
    const int64_t message = sample < kBatch ? sample : sample + damaged();
    const int64_t step = message / kBatch;
    const Cooperation& cooperation = program_.cooperation;
    if (cooperation.kind != Cooperation::Kind::rounds || cooperation.work_steps == 1)
      return 1 - kRate / static_cast<double>(size_of(step));
    // The part that has the sample.
    Part part{0, 1, probed_.workers};
    while (part.last(size_of(step)) <= message % kBatch) part = {part.begin + 1, part.end + 1, part.of};
    int64_t own = 0;
    int64_t all = 0;
    for (int64_t s = step - step % cooperation.work_steps;
         s < std::min(steps(), step - step % cooperation.work_steps + cooperation.work_steps); ++s) {
      own += part.last(size_of(s)) - part.first(size_of(s));
      all += size_of(s);
    }
    const int64_t samples = part.last(size_of(step)) - part.first(size_of(step));
    return 1 - static_cast<double>(own) / static_cast<double>(all) * kRate / static_cast<double>(samples);
  }

  std::shared_ptr<StreamBatches> stream() {
    const int64_t all = messages();
    return std::make_shared<StreamBatches>(std::make_unique<test::MemoryLog>(topic_),
                                           StreamOptions{.format = format_,
                                                         .batch = kBatch,
                                                         .starts = {0, 0, 0},
                                                         .ends = {(all + 2) / 3, (all + 1) / 3, all / 3},
                                                         .messages = all,
                                                         .skip_damaged = probed_.damaged});
  }

  void train() {
    const auto messages = stream();
    CoordinatorOptions options = division_of(program_.cooperation, probed_.workers, steps());
    options.job = "probe";
    options.works_before = 1000;
    if (situation_.here < probed_.workers) options.gather_seconds = 0.05;
    std::stop_source over;
    std::vector<std::jthread> workers;
    {
      Coordinator coordinator(options);
      for (int64_t w = 0; w < situation_.here; ++w)
        workers.emplace_back([this, w, address = coordinator.address(), stop = over.get_token()] {
          if (works(address, w == 0 ? situation_.first : Vanishes::never, stop) && situation_.returns)
            works(address, Vanishes::never, stop);
        });
      for (uint32_t epoch = 0; epoch < kEpochs; ++epoch)
        EXPECT_EQ(samples_of(coordinator, *messages, epoch), data_.size());
    }
    over.request_stop();  // one that comes back later finds no coordinator
  }

  /// The samples of all steps of an epoch that the coordinator reports.
  int64_t samples_of(Coordinator& coordinator, const StreamBatches& messages, uint32_t epoch) {
    StreamWork work(messages, 0, 1);
    if (probed_.topic)
      work.begin({.epoch = {.epoch = epoch}, .end = steps(), .position = messages.begin(epoch)});
    coordinator.begin_epoch(epoch, 0, steps(), probed_.topic ? work.start().bytes : "");
    int64_t samples = 0;
    int64_t unbegun = 0;
    const auto start = std::chrono::steady_clock::now();
    while (!coordinator.epoch_finished()) {
      if (probed_.topic) unbegun = coordinator.extend(work.extend(unbegun, 0));
      for (const StepDone& step : coordinator.wait(0.01)) samples += step.samples;
      if (std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) continue;
      ADD_FAILURE() << "the epoch does not end";
      break;
    }
    return samples;
  }

  /// Returns whether it has vanished.
  bool works(const std::string& coordinator, Vanishes where, const std::stop_token& stop) {
    try {
      Membership membership(
          {.coordinator = coordinator, .patience_seconds = 20, .stop = stop, .name = "worker"});
      Vanishing source(membership, where);
      std::vector<std::unique_ptr<Store>> stores;
      stores.push_back(connect(0, source.id()));
      stores.push_back(std::make_unique<SecondStore>(connect(1, source.id()), source));
      StoreAccess access{{stores[0].get(), stores[1].get()}, {}};
      Session session(program_, kTwoServers, {.seed = 3, .store = &access});
      const int64_t parts = parts_of(program_.cooperation, probed_.workers);
      std::unique_ptr<LeasedBatches> batches;
      if (probed_.topic)
        batches = std::make_unique<LeasedStream>(stream(), parts);
      else
        batches = std::make_unique<LeasedDataset>(data_, kBatch, 0, false, parts);
      const bool rounds = program_.cooperation.kind == Cooperation::Kind::rounds;
      WorkerLoop(source, session, *batches, steps(), options_, parts, {}, rounds ? &access : nullptr).run();
    } catch (const Vanished&) {
      return true;
    } catch (const Error& error) {
      // The training may be over before a worker has come back.
      if (error.kind() != Error::Kind::run) ADD_FAILURE() << error.what();
    }
    return false;
  }

  Probed probed_;
  Situation situation_;
  OneHot data_;
  test::MemoryTopic topic_;
  int64_t added_ = 0;  ///< messages to it
  MessageFormat format_;
  Program program_;
  TrainerOptions options_;
  std::vector<std::unique_ptr<LocalStoreServer>> servers_;
  std::optional<test::CopiedServers> copied_;
};

void probe(const Probed& probed, const std::vector<Situation>& situations) {
  for (const Situation& situation : situations) {
    SCOPED_TRACE(fmt::format("{} of {} samples from a {}, {}", probed.strategy, probed.samples,
                             probed.topic ? "topic" : "file", situation.name));
    Probe(probed, situation).expect_every_sample_once();
  }
}

std::vector<Situation> situations(int64_t workers, bool rounds) {
  std::vector<Situation> all = {
      {"all are there", workers},
      {"one is there", 1},
      {"one vanishes after its push", workers, Vanishes::pushed},
      {"one vanishes between two servers and returns", workers, Vanishes::between, true},
      {"the only one vanishes between two servers and returns", 1, Vanishes::between, true},
      {"the only one vanishes after its push and returns", 1, Vanishes::pushed, true},
  };
  if (!rounds) return all;
  for (const bool returns : {false, true}) {
    const std::string then = returns ? " and returns" : "";
    all.push_back({"one vanishes when it has computed" + then, workers, Vanishes::computed, returns});
    all.push_back({"one vanishes when it is in a round" + then, workers, Vanishes::granted, returns});
  }
  return all;
}

class EverySampleOnce : public testing::TestWithParam<bool> {};

TEST_P(EverySampleOnce, InRoundsOfTwoWorkers) {
  probe({"sync_ps", {}, 2, 26, GetParam()}, situations(2, true));
}
TEST_P(EverySampleOnce, InRoundsOfFourWorkers) {
  probe({"sync_ps", {}, 4, 26, GetParam()}, situations(4, true));
  probe({"sync_ps", {}, 4, 26, GetParam()}, {{"three of four", 3}});
}
TEST_P(EverySampleOnce, InRoundsWithBackups) {
  probe({"sync_ps", {{"backups", int64_t{1}}}, 2, 26, GetParam()}, situations(3, true));
  probe({"sync_ps", {{"backups", int64_t{2}}}, 1, 26, GetParam()}, {{"all are there", 3}});
}
TEST_P(EverySampleOnce, InAverages) {
  probe({"parameter_averaging", {}, 2, 26, GetParam()}, situations(2, true));
  probe({"parameter_averaging", {{"average_every", int64_t{3}}}, 4, 24, GetParam()}, situations(4, true));
  probe({"parameter_averaging", {{"average_every", int64_t{2}}}, 2, 22, GetParam()}, situations(2, true));
  probe({"parameter_averaging", {{"average_every", int64_t{3}}}, 4, 22, GetParam()}, {{"one is there", 1}});
}
TEST_P(EverySampleOnce, Asynchronously) {
  probe({"async_sgd", {}, 2, 26, GetParam()}, situations(2, false));
  probe({"async_local_sgd", {{"average_every", int64_t{2}}}, 2, 26, GetParam()}, situations(2, false));
}
/// With a short last batch, in a push of its own (26) and with another (22).
TEST_P(EverySampleOnce, InPushesOfSeveralBatches) {
  probe({"downpour", {{"push_every", int64_t{2}}}, 2, 22, GetParam()}, situations(2, false));
  for (const int64_t samples : {24, 26})
    probe({"downpour", {{"push_every", int64_t{2}}}, 2, samples, GetParam()}, {{"all are there", 2}});
  probe({"downpour", {{"push_every", int64_t{3}}, {"fetch_every", int64_t{2}}}, 2, 22, GetParam()},
        {{"all are there", 2}});
  probe({"async_local_sgd", {{"average_every", int64_t{2}}}, 2, 22, GetParam()}, {{"all are there", 2}});
}
/// Two servers, of which one is killed at each fourth or eighth push, whatever the workers do.
TEST_P(EverySampleOnce, WhileServersWithCopiesAreKilled) {
  const std::vector<Situation> storm = {{"one vanishes between two servers", 2, Vanishes::between, true, 8}};
  probe({"async_sgd", {}, 2, 26, GetParam()}, storm);
  if (!GetParam()) return;  // the servers see no difference between a file's samples and a topic's
  probe({"sync_ps", {}, 2, 26, GetParam()}, storm);
  const std::vector<Situation> all_there = {{"all are there", 2, Vanishes::never, false, 4}};
  probe({"downpour", {{"push_every", int64_t{2}}}, 2, 22, GetParam()}, all_there);
  probe({"async_local_sgd", {{"average_every", int64_t{2}}}, 2, 22, GetParam()}, all_there);
  probe({"parameter_averaging", {}, 2, 26, GetParam()}, all_there);
}
TEST(OneHot, BesideABatchOfDamagedMessages) {
  for (const char* strategy : {"sync_ps", "async_sgd"})
    probe({strategy, {}, 2, 26, true, true}, {{"all are there", 2}, {"one is there", 1}});
  probe({"downpour", {{"push_every", int64_t{2}}}, 2, 22, true, true}, {{"all are there", 2}});
  for (const char* strategy : {"parameter_averaging", "async_local_sgd"})
    probe({strategy, {{"average_every", int64_t{2}}}, 2, 22, true, true}, {{"all are there", 2}});
}

INSTANTIATE_TEST_SUITE_P(From, EverySampleOnce, testing::Bool(),
                         [](const auto& source) { return source.param ? "Topic" : "File"; });

}  // namespace
}  // namespace telar
