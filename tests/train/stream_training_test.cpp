#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "support/make_session.h"
#include "support/memory_log.h"
#include "support/sentences.h"
#include "telar/data/streams/stream_batches.h"
#include "telar/data/synthetic.h"
#include "telar/nn/zoo.h"
#include "telar/train/job_keys.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_stream.h"
#include "telar/train/stream_observer.h"
#include "telar/train/trainer.h"

namespace telar {
namespace {

using test::MemoryTopic;
using test::says;
using test::sentence_of;

constexpr int64_t kMessages = 50;
constexpr int64_t kStreamBatch = 8;

std::unique_ptr<Session> stream_session(int replicas) {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{8}}, {"dropout", 0.3}}, {6}, 3);
  StepOptions options;
  options.batch = kStreamBatch;
  options.optimizer = AdamOptions{};
  return test::make_session(model, options, {.replicas = replicas, .mirrored = replicas > 1});
}

DatasetPtr stream_samples() {
  return synthetic({.samples = kMessages, .features = {6}, .classes = 3, .seed = 3});
}

MessageFormat stream_format() {
  MessageFormat format;
  format.spec = stream_samples()->spec();
  return format;
}

/// Sample n is message n, in partition n mod 3.
void publish_samples(MemoryTopic& topic) {
  const DatasetPtr data = stream_samples();
  std::vector<std::byte> features(data->spec().feature_bytes());
  std::vector<std::byte> label(data->spec().label_bytes());
  std::string message;
  for (int64_t n = 0; n < data->size(); ++n) {
    data->read(n, {}, features, label);
    encode_message(stream_format(), features, label, message);
    topic.add(static_cast<size_t>(n % 3), message);
  }
}

std::unique_ptr<StreamBatches> open_stream(MemoryTopic& topic, bool endless) {
  StreamOptions options;
  options.format = stream_format();
  options.batch = kStreamBatch;
  options.starts = {0, 0, 0};
  options.audit = true;
  if (!endless) options.ends = {17, 17, 16};
  return std::make_unique<StreamBatches>(std::make_unique<test::MemoryLog>(topic), std::move(options));
}

TrainerOptions stream_training() {
  TrainerOptions options;
  options.epochs = 3;
  options.batch = kStreamBatch;
  options.epoch_steps = 2;
  options.schedule = {.base = 0.05};
  options.shuffle = false;
  options.prefetch = 3;
  return options;
}

/// The losses of all steps, and how often each offset was used in a step that counts.
class StepLog final : public TrainingObserver {
 public:
  explicit StepLog(const Stream* stream = nullptr) : stream_(stream) {}
  void step_done(const StepReport& report, const TrainingState& state) override {
    losses.push_back(report.sums[0]);
    if (stream_ == nullptr) return;
    const BatchUse use = stream_->uses(state.position);
    for (const UsedOffsets& used : use.used)
      for (int64_t offset = used.first; offset < used.end; ++offset) ++uses[{used.partition, offset}];
  }
  std::vector<double> losses;
  std::map<std::pair<int, int64_t>, int> uses;

 private:
  const Stream* stream_;
};

TEST(StreamTraining, GivesTheLossesOfTheFileInItsOrder) {
  MemoryTopic topic(3);
  publish_samples(topic);
  const DatasetPtr data = stream_samples();
  for (const int replicas : {1, 2}) {
    StepLog file;
    const auto from_file = stream_session(replicas);
    Trainer(*from_file, stream_training()).fit(*data, nullptr, {&file});
    StepLog streamed;
    const auto from_topic = stream_session(replicas);
    const auto stream = open_stream(topic, false);
    Trainer(*from_topic, stream_training()).fit(*stream, nullptr, {&streamed});
    EXPECT_EQ(file.losses.size(), 3U * 7);
    EXPECT_EQ(file.losses, streamed.losses) << replicas << " replicas";
    for (const StateName& name : from_file->state_names())
      EXPECT_EQ(from_file->read_state(name), from_topic->read_state(name)) << name.text();
  }
}

TEST(StreamTraining, WhatWasReadInAdvanceIsUsedAgainAfterAStop) {
  MemoryTopic topic(3);
  publish_samples(topic);
  const auto undisturbed = stream_session(1);
  const auto whole = open_stream(topic, true);
  StepLog expected(whole.get());
  Trainer(*undisturbed, stream_training()).fit(*whole, nullptr, {&expected});
  EXPECT_EQ(expected.uses.size(), 6U * kStreamBatch);

  const auto session = stream_session(1);
  TrainingState state;
  std::map<std::pair<int, int64_t>, int> uses;
  std::vector<double> losses;
  for (int stops = 0;; ++stops) {
    ASSERT_LT(stops, 20);
    const auto stream = open_stream(topic, true);  // as another process would
    StepLog log(stream.get());
    Trainer trainer(*session, stream_training());
    trainer.restore(state);
    int left = 1;
    const FitOutcome outcome =
        trainer.fit(*stream, nullptr, {&log}, [&] { return left-- <= 0 || stops == 0; });
    state = trainer.state();
    for (const auto& [offset, count] : log.uses) uses[offset] += count;
    losses.insert(losses.end(), log.losses.begin(), log.losses.end());
    if (outcome == FitOutcome::finished) break;
  }
  EXPECT_EQ(uses, expected.uses);
  for (const auto& [offset, count] : uses) EXPECT_EQ(count, 1) << offset.first << ":" << offset.second;
  EXPECT_EQ(losses, expected.losses);
}

TEST(StreamTraining, TheEndOfAPassIsKeptUntilTheNextOneBegins) {
  MemoryTopic topic(3);
  publish_samples(topic);
  const auto session = stream_session(1);
  const auto stream = open_stream(topic, false);
  TrainerOptions options = stream_training();
  options.epochs = 1;
  Trainer first(*session, options);
  first.fit(*stream, nullptr);
  stream->recognise(first.state().position);
  EXPECT_TRUE(stream->at_end(first.state().position));
  options.epochs = 2;
  Trainer second(*session, options);
  second.restore(first.state());
  StepLog log(stream.get());
  second.fit(*stream, nullptr, {&log});
  EXPECT_EQ(log.uses.size(), static_cast<size_t>(kMessages));
}

/// Whether each step has changed the parameters.
class StateLog final : public TrainingObserver {
 public:
  explicit StateLog(const Session& session) : session_(session) {}
  void step_done(const StepReport& /*report*/, const TrainingState& /*state*/) override {
    auto state = test::all_state(session_);
    changes.push_back(state != last_);
    last_ = std::move(state);
  }
  std::vector<bool> changes;

 private:
  const Session& session_;
  decltype(test::all_state(std::declval<const Session&>())) last_;
};

/// Two batches of which all messages are damaged follow each good one.
TEST(StreamTraining, ABatchWithoutSamplesIsAStepThatChangesNothing) {
  MemoryTopic topic(1);
  const DatasetPtr data = stream_samples();
  std::vector<std::byte> features(data->spec().feature_bytes());
  std::vector<std::byte> label(data->spec().label_bytes());
  std::string message;
  for (int64_t n = 0; n < 3 * kStreamBatch; ++n) {
    data->read(n, {}, features, label);
    encode_message(stream_format(), features, label, message);
    topic.add(0, message);
    for (int64_t d = 0; d < 2 * kStreamBatch && n % kStreamBatch == kStreamBatch - 1; ++d)
      topic.add(0, "damaged");
  }
  const auto open = [&topic] {
    StreamOptions options;
    options.format = stream_format();
    options.batch = kStreamBatch;
    options.starts = {0};
    options.ends = {topic.range(0).end};
    options.audit = options.skip_damaged = true;
    return std::make_unique<StreamBatches>(std::make_unique<test::MemoryLog>(topic), std::move(options));
  };
  TrainerOptions options = stream_training();
  options.epochs = 1;
  for (const int replicas : {1, 2}) {
    const auto stream = open();
    StepLog log(stream.get());
    const auto session = stream_session(replicas);
    StateLog states(*session);
    Trainer trainer(*session, options);
    trainer.fit(*stream, nullptr, {&log, &states});
    ASSERT_EQ(trainer.state().step, 9);
    EXPECT_EQ(trainer.state().samples, 3 * kStreamBatch);
    EXPECT_EQ(log.uses.size(), static_cast<size_t>(3 * kStreamBatch));
    for (size_t step = 1; step < 9; ++step) {
      const bool empty = step % 3 != 0;
      EXPECT_EQ(states.changes[step], !empty) << step;
      EXPECT_EQ(log.losses[step] == 0, empty) << step;
    }
  }
}

TEST(StreamTraining, DamagedMessagesAreCountedOverAllPartsOfARun) {
  MemoryTopic topic(3);
  publish_samples(topic);
  for (int n = 0; n < 9; ++n) topic.add(static_cast<size_t>(n % 3), "damaged");
  StreamOptions options;
  options.format = stream_format();
  options.batch = kStreamBatch;
  options.starts = {0, 0, 0};
  options.ends = {20, 20, 19};
  options.skip_damaged = true;
  const auto session = stream_session(1);
  TrainingState state;
  for (int64_t epochs = 1; epochs <= 3; ++epochs) {
    const StreamBatches stream(std::make_unique<test::MemoryLog>(topic), options);
    TrainerOptions training = stream_training();
    training.epochs = epochs;
    training.left_out = [&](const CompletedStep& step) {
      EXPECT_EQ(left_out_of(stream, step, true), left_out_of(stream, step, false));
      return left_out_of(stream, step, false);
    };
    Trainer trainer(*session, training);
    trainer.restore(state);
    trainer.fit(stream, nullptr);
    state = training_state_from_json(to_json(trainer.state()), "state.json");
    EXPECT_EQ(state.left_out, 9 * epochs);
    EXPECT_EQ(state.samples, kMessages * epochs);
  }
}

TEST(StreamTraining, AnEpochWithoutAnySoundMessageIsRefused) {
  MemoryTopic topic(3);
  for (int n = 0; n < 50; ++n) topic.add(static_cast<size_t>(n % 3), "damaged");
  StreamOptions options;
  options.format = stream_format();
  options.batch = kStreamBatch;
  options.starts = {0, 0, 0};
  options.ends = {17, 17, 16};
  options.skip_damaged = true;
  const StreamBatches stream(std::make_unique<test::MemoryLog>(topic), std::move(options));
  const auto session = stream_session(1);
  EXPECT_TRUE(says(sentence_of([&] { Trainer(*session, stream_training()).fit(stream, nullptr); }),
                   "epoch 1 has no samples to train on"));
}

const std::string kStreamJob =
    "model: mlp\n"
    "data: {source: kafka, brokers: \"localhost:1\", topic: events}\n"
    "training: {epoch_steps: 10}\n";

Job stream_job(const std::vector<std::string>& overrides = {}) {
  return parse_job(kStreamJob, "job.yaml", overrides);
}

std::string stream_mistake(const std::vector<std::string>& overrides) {
  return sentence_of([&] { stream_job(overrides); });
}

TEST(StreamJob, ARunFromBeforeNormalisesItsMessagesAsItDid) {
  DataJob data = stream_job({"data.mean=[1]", "data.std=[2]"}).data;
  EXPECT_EQ(message_scale(data).how, Normalising::exact);
  EXPECT_EQ(message_scale(data).std, std::vector<double>{2});
  for (const int64_t rules : {1, 2}) {
    data.rules = rules;
    EXPECT_EQ(message_scale(data).how, Normalising::rounded) << rules;
  }
  data.normalise = false;
  EXPECT_TRUE(message_scale(data).mean.empty());
}

TEST(StreamJob, ItsGroupsAreReadAndWrittenBack) {
  const std::vector<std::string> given = {"data.start={offsets: [3, 5]}", "data.end={messages: 70}",
                                          "data.kafka={security.protocol: ssl, \"x\": \"a: b\"}",
                                          "training.epoch_steps=0"};
  const Job job = stream_job(given);
  EXPECT_EQ(job.data.options.text("start"), "offsets: [3, 5]");
  EXPECT_EQ(job.data.options.text("end"), "messages: 70");
  EXPECT_EQ(job.data.options.texts("kafka"), (std::vector<std::string>{"security.protocol: ssl", "x: a: b"}));
  EXPECT_EQ(job.data.validation, 0);
  const std::string text = job_text(job);
  EXPECT_TRUE(says(text, "start: {offsets: [3, 5]}\n"));
  EXPECT_TRUE(says(text, "kafka: {security.protocol: ssl, x: \"a: b\"}\n"));
  EXPECT_EQ(text.find("shuffle"), std::string::npos) << "it has no meaning for a stream";
  EXPECT_EQ(job_text(parse_job(text, "again")), text);
  for (const char* time : {"2026-11-24T18:00:00.5+01:00", "1795543200000"}) {
    const std::string written = job_text(stream_job({fmt::format("data.start={{timestamp: {}}}", time)}));
    EXPECT_TRUE(says(written, fmt::format("start: {{timestamp: {}}}\n", time)));
    EXPECT_EQ(job_text(parse_job(written, "again")), written);
  }
}

TEST(StreamJob, TheNumberOfWorkersMayHaveLimits) {
  const Job job = stream_job({"strategy={name: downpour, workers: {min: 2, max: 7, lag_seconds: 3}}"});
  EXPECT_EQ(job.strategy.elastic, (ElasticWorkers{.min = 2, .max = 7, .lag_seconds = 3}));
  EXPECT_EQ(job.strategy.options.integer("workers"), 7);
  const std::string text = job_text(job);
  EXPECT_TRUE(says(text, "workers: {min: 2, max: 7, lag_seconds: 3}\n"));
  EXPECT_EQ(parse_job(text, "again").strategy.elastic, job.strategy.elastic);
  const Job plain = parse_job(text, "again", {"strategy.workers=3"});
  EXPECT_EQ(plain.strategy.elastic.min, 0);
  EXPECT_EQ(plain.strategy.options.integer("workers"), 3);
}

TEST(StreamJob, MistakesAreSentences) {
  const auto expect_mistake = [](const std::vector<std::string>& overrides, const std::string& part) {
    EXPECT_TRUE(says(stream_mistake(overrides), part));
  };
  expect_mistake({"data.end=later"}, "it must be never, now, {messages: …} or {offsets: …}");
  expect_mistake({"data.start={offset: 3}"}, "data.start is a group");
  expect_mistake({"data.start={offsets: [-1]}"}, "data.start.offsets is '-1'");
  expect_mistake({"data.start={timestamp: 2026-11-24}"}, "data.start: '2026-11-24' is not a time");
  expect_mistake({"data.format=avro"}, "avro needs the file of the schema");
  expect_mistake({"data.format=protobuf", "data.descriptor=a.desc"}, "the name of the message in it");
  expect_mistake({"data.kafka=ssl"}, "it must be a group of texts");
  expect_mistake({"data.kafka={sasl.password: x}"}, "sasl.password is a secret");
  expect_mistake({"training.epoch_steps=0"}, "data.end is never, so training.epoch_steps must say");
  expect_mistake({"data.end=now"}, "training.epoch_steps is for data.end never");
  expect_mistake({"data.validation=0.1"}, "data.validation is for data.source");
  expect_mistake({"data.dead_letter=failed"}, "data.dead_letter is failed, but data.on_error is stop");
  expect_mistake({"data.dead_letter=events", "data.on_error=skip"}, "data.dead_letter is the topic itself");
  expect_mistake({"data.format=json", "data.fields=[a, a]"}, "the field 'a' is named twice");
  expect_mistake({"training.early_stopping.patience=2"}, "validation samples, which source kafka");
  const auto expect_mistake_with_servers = [](std::vector<std::string> overrides, const std::string& part) {
    overrides.insert(overrides.begin(), {"data.end=now", "training.epoch_steps=0"});
    EXPECT_TRUE(says(stream_mistake(overrides), part));
  };
  expect_mistake({"data.linger_ms=20"}, "data.linger_ms is 20, so batches would depend on the time");
  expect_mistake({"data.linger_ms=20", "data.order=arrival", "data.end=now", "training.epoch_steps=0"},
                 "it is for data.order arrival and data.end never");
  expect_mistake({"strategy={name: sync_ps, workers: {min: 1, max: 4}}"},
                 "the workers of strategy sync_ps make each step together");
  expect_mistake({"strategy={name: downpour, workers: {min: 5, max: 4}}"},
                 "strategy.workers.max is 4; it must be at least 5, the min");
  expect_mistake({"strategy={name: downpour, workers: {min: 5}}"}, "strategy.workers has no max");
  expect_mistake({"strategy={name: downpour, workers: {least: 5, max: 6}}"},
                 "strategy.workers.least is unknown");
  expect_mistake({"strategy={name: downpour, workers: {max: 0}}"}, "strategy.workers.max is '0'");
  EXPECT_TRUE(says(sentence_of([] {
                     parse_job("model: mlp\ndata: synthetic\nstrategy: {name: downpour, workers: {max: 4}}\n",
                               "job.yaml");
                   }),
                   "follows the lag of a stream, but data.source is synthetic"));
  expect_mistake_with_servers({"strategy.name=downpour", "strategy.push_every=1001"},
                              "at most 1000 batches are pushed at once; it is 1001");
  expect_mistake_with_servers({"strategy.name=parameter_averaging", "strategy.average_every=2000"},
                              "at most 1000 batches are pushed at once; it is 2000");
  expect_mistake_with_servers({"strategy.name=downpour", "strategy.payload=bf16"},
                              "what a payload leaves for later pushes would be lost");
  for (const char* strategy :
       {"sync_ps", "async_sgd", "downpour", "parameter_averaging", "async_local_sgd"}) {
    const std::string workers = fmt::format("strategy={{name: {}, workers: 2}}", strategy);
    EXPECT_EQ(stream_mistake({workers}), "");
    EXPECT_EQ(stream_mistake({workers, "data.order=arrival", "data.linger_ms=20"}), "");
    for (const char* end : {"now", "{offsets: [4]}", "{messages: 4}"})
      EXPECT_EQ(stream_mistake({fmt::format("data.end={}", end), "training.epoch_steps=0", workers}), "");
  }
  EXPECT_TRUE(says(
      sentence_of([] { parse_job("model: mlp\ndata: synthetic\ntraining: {epoch_steps: 3}\n", "job.yaml"); }),
      "training.epoch_steps is for data.source kafka"));
}

}  // namespace
}  // namespace telar
