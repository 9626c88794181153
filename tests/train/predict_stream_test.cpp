#include "telar/train/predict_stream.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <thread>

#include "io/temp_folder.h"
#include "support/make_session.h"
#include "support/memory_log.h"
#include "support/sentences.h"
#include "telar/nn/zoo.h"
#include "telar/train/checkpoint.h"
#include "telar/train/predict_topic.h"

namespace telar {
namespace {

using test::MemoryTopic;
using test::says;
using test::sentence_of;

std::unique_ptr<Session> predicting_session(uint64_t seed) {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{4}}}, {2}, 3);
  StepOptions options;
  options.batch = 8;
  options.optimizer = SgdOptions{};
  return test::make_session(model, options, {.session = {.seed = seed}});
}

SampleSpec predicted_spec() {
  SampleSpec spec;
  spec.features = {2};
  spec.classes = 3;
  return spec;
}

/// Adds the checkpoint of a step to a run.
void save_step(const test::TempFolder& run, int64_t step) {
  TrainingState state;
  state.step = step;
  std::filesystem::create_directories(run / "checkpoints");
  write_checkpoint(checkpoint_path(run / "checkpoints", step),
                   checkpoint_tensors(*predicting_session(static_cast<uint64_t>(step))), state);
}

Trained trained_at(const test::TempFolder& run, int64_t step) {
  Trained trained;
  trained.checkpoint = checkpoint_path(run / "checkpoints", step);
  trained.step = step;
  trained.spec = predicted_spec();
  trained.session = predicting_session(static_cast<uint64_t>(step));
  return trained;
}

/// The probabilities of a message by the parameters of a step.
std::vector<float> right_outputs(int64_t step, std::vector<float> x) {
  Trained trained;
  trained.spec = predicted_spec();
  trained.session = predicting_session(static_cast<uint64_t>(step));
  Batch batch({{"x", DType::f32, {2}}, {"label", DType::i32, {}}});
  batch.resize(1);
  std::memcpy(batch.data(0), x.data(), 8);
  batch.ids()[0] = 0;
  return predict(trained, batch);
}

/// Keeps what is written, and how much of it was stored.
class MemoryWriter final : public PredictionWriter {
 public:
  struct Written {
    int partition;
    int64_t offset;
    std::string key;
    std::vector<float> outputs;
    int64_t step;
  };
  bool write(const Prediction& prediction) override {
    written.push_back({prediction.partition,
                       prediction.offset,
                       prediction.key.value_or("none"),
                       {prediction.outputs.begin(), prediction.outputs.end()},
                       prediction.step});
    return true;
  }
  bool store() override {
    if (!away) stored = written.size();
    return !away;
  }

  std::vector<Written> written;
  size_t stored = 0;
  bool away = false;
};

PredictStreamOptions csv_options(std::vector<int64_t> starts) {
  PredictStreamOptions options;
  options.format.name = "csv";
  options.format.spec = predicted_spec();
  options.format.labelled = false;
  options.starts = std::move(starts);
  options.batch = 4;
  return options;
}

PredictedStream predicted(MemoryTopic& topic, MemoryWriter& writer, const PredictStreamOptions& options) {
  const test::TempFolder run;
  save_step(run, 3);
  Trained trained = trained_at(run, 3);
  NewerParameters parameters(trained, run.path(), {});
  test::MemoryLog log(topic);
  return predict_stream(trained, parameters, log, writer, options);
}

TEST(PredictStream, EveryMessageHasItsPredictionAndThenCountsAsUsed) {
  MemoryTopic topic(2);
  topic.keyed = true;
  for (int n = 0; n < 11; ++n) topic.add(n % 2, std::to_string(n) + ",1");
  PredictStreamOptions options = csv_options({0, 2});
  options.ends = {6, 5};
  MemoryWriter writer;
  const PredictedStream done = predicted(topic, writer, options);
  EXPECT_EQ(done.predicted, 9);
  EXPECT_TRUE(done.stored);
  ASSERT_EQ(writer.written.size(), 9U);
  EXPECT_EQ(writer.stored, 9U);
  EXPECT_EQ(topic.used, (std::vector<int64_t>{6, 5}));
  for (const MemoryWriter::Written& each : writer.written) {
    EXPECT_EQ(each.key, "k" + std::to_string(each.offset));
    EXPECT_EQ(each.step, 3);
    const auto n = static_cast<float>(2 * each.offset + each.partition);
    // Of a batch, where the right ones are each of its own.
    const std::vector<float> right = right_outputs(3, {n, 1});
    ASSERT_EQ(each.outputs.size(), right.size());
    for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(each.outputs[i], right[i], 1e-6);
  }
}

TEST(PredictStream, EndsAfterSoManyMessages) {
  MemoryTopic topic(1);
  for (int n = 0; n < 11; ++n) topic.add(0, "1,2,0");
  PredictStreamOptions options = csv_options({1});
  options.messages = 6;
  MemoryWriter writer;
  EXPECT_EQ(predicted(topic, writer, options).predicted, 6);
  EXPECT_EQ(topic.used, std::vector<int64_t>{7});
}

TEST(PredictStream, WhatIsNotStoredIsNotUsed) {
  MemoryTopic topic(1);
  topic.add(0, "1,2");
  PredictStreamOptions options = csv_options({0});
  options.messages = 1;
  MemoryWriter writer;
  writer.away = true;
  EXPECT_FALSE(predicted(topic, writer, options).stored);
  EXPECT_TRUE(topic.used.empty());
}

TEST(PredictStream, ADamagedMessageEndsItAfterThoseBeforeIt) {
  MemoryTopic topic(1);
  for (const char* message : {"1,2", "3,4", "5", "6,7"}) topic.add(0, message);
  PredictStreamOptions options = csv_options({0});
  options.ends = {4};
  MemoryWriter writer;
  EXPECT_TRUE(says(sentence_of([&] { predicted(topic, writer, options); }),
                   "topic 'events', partition 0, offset 2: the message, line 1: has a single column"));
  EXPECT_EQ(writer.stored, 2U);
  EXPECT_EQ(topic.used, std::vector<int64_t>{2});
  options.damage.skip = true;
  options.starts = {2};
  const PredictedStream done = predicted(topic, writer, options);
  EXPECT_EQ(done.predicted, 1);
  EXPECT_EQ(done.left_out, 1);
  EXPECT_EQ(topic.used, std::vector<int64_t>{4});
}

TEST(PredictStream, WarnsOnceOfPartitionsThatWereAdded) {
  MemoryTopic topic(1);
  topic.added = 2;
  for (int n = 0; n < 9; ++n) topic.add(0, "1,2");
  PredictStreamOptions options = csv_options({0});
  options.messages = 9;
  std::vector<std::string> warnings;
  options.damage.warn = [&](const std::string& text) { warnings.push_back(text); };
  MemoryWriter writer;
  predicted(topic, writer, options);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(says(warnings[0], "topic 'events' has 3 partitions now"));
}

TEST(PredictStream, AnUnfullBatchIsPredictedAfterAWhile) {
  MemoryTopic topic(2);
  topic.add(1, "1,2");
  PredictStreamOptions options = csv_options({0, 0});
  MemoryWriter writer;
  const auto start = std::chrono::steady_clock::now();
  options.stop_requested = [&] {
    return !writer.written.empty() || std::chrono::steady_clock::now() - start > std::chrono::seconds(20);
  };
  EXPECT_EQ(predicted(topic, writer, options).predicted, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(PredictStream, NewerParametersAreUsedAndDamagedOnesAreNot) {
  const test::TempFolder run;
  save_step(run, 3);
  Trained trained = trained_at(run, 3);
  std::vector<std::string> warnings;
  NewerParameters parameters(trained, run.path(), [&](const std::string& text) { warnings.push_back(text); });
  NewerParameters fixed(trained, trained.checkpoint, {});
  const auto look = [](NewerParameters& which) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    return which.look();
  };
  EXPECT_FALSE(look(parameters));
  save_step(run, 5);
  save_step(run, 7);
  std::ofstream(checkpoint_path(run / "checkpoints", 7) / "model.safetensors", std::ios::app) << "x";
  std::filesystem::create_directory(run / "checkpoints" / "step-00000009.tmp-1");
  EXPECT_FALSE(look(fixed)) << "it was given one checkpoint";
  EXPECT_TRUE(look(parameters));
  EXPECT_EQ(trained.step, 5);
  for (const StateName& name : trained.session->state_names()) {
    if (name.is_parameter()) {
      EXPECT_EQ(trained.session->read_state(name), predicting_session(5)->read_state(name));
    }
  }
  EXPECT_FALSE(look(parameters));
  ASSERT_EQ(warnings.size(), 1U) << "once";
  EXPECT_TRUE(says(warnings[0], "the parameters stay those of step 3"));
  save_step(run, 8);
  EXPECT_TRUE(look(parameters));
  EXPECT_EQ(trained.step, 8);
}

TEST(PredictStream, ResultsAreJson) {
  const std::vector<float> outputs = {0.25F, 0.5F, std::numeric_limits<float>::quiet_NaN()};
  SampleSpec spec = predicted_spec();
  spec.classes = 0;
  EXPECT_EQ(
      prediction_json({1, 17, "a\"\xff", outputs, 9}, spec),
      "{\"partition\":1,\"offset\":17,\"key\":\"a\\\"\xEF\xBF\xBD\",\"step\":9,\"values\":[0.25,0.5,null]}");
  spec.classes = 2;
  const auto two = std::span(outputs).first(2);
  EXPECT_EQ(prediction_json({0, 2, std::nullopt, two, 9}, spec),
            R"({"partition":0,"offset":2,"step":9,"class":1,"probabilities":[0.25,0.5]})");
  spec.class_names = {"shirt", "boot"};
  EXPECT_EQ(
      prediction_json({0, 2, std::nullopt, two, 9}, spec),
      R"({"partition":0,"offset":2,"step":9,"class":1,"class_name":"boot","probabilities":[0.25,0.5]})");
}

}  // namespace
}  // namespace telar
