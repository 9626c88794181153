#include "telar/train/data_decision.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "support/picture_folder.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/train/job_reader.h"
#include "telar/train/predict_topic.h"

namespace telar {
namespace {

using test::expect_error;

DataJob data_job(const std::string& data) { return parse_job("model: mlp\ndata: " + data, "job.yaml").data; }

std::vector<float> pixels_of(const Dataset& data, int64_t index) {
  std::vector<float> features(data.spec().feature_bytes() / sizeof(float));
  std::vector<std::byte> label(data.spec().label_bytes());
  data.read(index, {}, std::as_writable_bytes(std::span(features)), label);
  return features;
}

/// Two hosts with the same images.
class TwoHosts : public testing::Test {
 protected:
  static DataJob job(const test::PictureFolder& pictures) {
    return data_job(fmt::format(
        "{{source: images, path: {}, shape: [3, 8, 8], validation: 0.2, test: 0.1, on_error: skip}}",
        pictures.path().string()));
  }
  DecidedDatasets decide() const {
    DataJob data = job(coordinator_);
    return open_and_decide(data, 1, {.threads = 2, .watch = {}, .warn = {}});
  }
  DatasetPtr open_as(const DataDecision& decision) const {
    DataJob data = job(worker_);
    return open_train_dataset_as_decided(data, 1, decision, 2);
  }

  test::TempFolder folder_;
  test::PictureFolder coordinator_{folder_ / "coordinator"};
  test::PictureFolder worker_{folder_ / "worker"};
};

TEST_F(TwoHosts, LeaveOutTheSamplesThatOneOfThemDecided) {
  for (const int i : {0, 1, 2, 3, 10, 11, 12, 13}) coordinator_.damage_inside(i);
  const auto [data, decision] = decide();
  ASSERT_EQ(data.left_out.count(), 8);
  ASSERT_FALSE(data.left_out.train.empty());
  const DatasetPtr here = open_as(decision);
  ASSERT_EQ(here->size(), data.train->size()) << "the worker could read them all";
  for (int64_t i = 0; i < here->size(); ++i) EXPECT_EQ(pixels_of(*here, i), pixels_of(*data.train, i)) << i;
}

TEST_F(TwoHosts, WhatOnlyAnotherOneCannotReadIsNotLeftOutThere) {
  const auto [data, decision] = decide();
  for (int i = 0; i < 20; ++i) worker_.damage_inside(i);
  EXPECT_EQ(open_as(decision)->size(), data.train->size()) << "nothing is decoded to open it";
}

TEST_F(TwoHosts, MustHaveTheSameFiles) {
  const DataDecision decision = decide().decision;
  EXPECT_NO_THROW(open_as(decision));
  std::filesystem::rename(worker_.file(4), worker_.path() / "cats" / "44.png");
  expect_error([&] { open_as(decision); }, {"differ from those of the coordinator",
                                            "checksum of data.path/cats: ", " at the coordinator, "});
  std::filesystem::remove(worker_.path() / "cats" / "44.png");
  std::filesystem::remove(worker_.file(5));
  expect_error([&] { open_as(decision); }, {"training samples: 14 at the coordinator, ",
                                            "files of data.path/cats: 10 at the coordinator, 8 here"});
}

TEST(DataDecision, ComparesTheContentOfOtherFilesAndNotTheirNames) {
  const test::TempFolder folder;
  const auto write = [&](const std::string& name, int first) {
    std::string text = "a,label\n";
    for (int i = 0; i < 40; ++i) text += fmt::format("{},{}\n", first + i, i % 2);
    test::write_text(folder / name, text);
  };
  write("one.csv", 0);
  write("copy.csv", 0);
  write("other.csv", 7);
  const auto job = [&](const std::string& name) {
    return data_job("{source: csv, classes: 2, path: " + (folder / name).string() + "}");
  };
  DataJob data = job("one.csv");
  const DataDecision decision = open_and_decide(data, 1, {}).decision;
  ASSERT_EQ(decision.mean.size(), 1U);
  DataJob copy = job("copy.csv");
  EXPECT_NO_THROW(open_train_dataset_as_decided(copy, 1, decision, 1));
  EXPECT_EQ(copy.mean, data.mean);
  DataJob other = job("other.csv");
  expect_error([&] { open_train_dataset_as_decided(other, 1, decision, 1); },
               {"checksum of some training samples: "});
}

/// The data of a topic of records with a schema of its own.
DataJob topic_job(const std::filesystem::path& schema) {
  return data_job(fmt::format(
      "{{source: kafka, brokers: none, topic: none, shape: [2], format: avro, fields: [a, b], schema: \"{}\"}}\n"
      "training: {{epoch_steps: 1}}",
      schema.string()));
}

TEST(DataDecision, MessagesAreReadByTheSchemaOfTheCoordinatorWhateverItsName) {
  const test::TempFolder folder;
  test::write_text(folder / "coordinator.avsc", "a, b");
  test::write_text(folder / "same.avsc", "a, b");
  test::write_text(folder / "swapped.avsc", "b, a");
  const DataDecision decision = data_decision_from_json(
      to_json(decide_on_stream(topic_job(folder / "coordinator.avsc"))), "the coordinator");
  require_as_decided(topic_job(folder / "same.avsc"), decision);
  expect_error([&] { require_as_decided(topic_job(folder / "swapped.avsc"), decision); },
               {"messages would be read otherwise", "checksum of data.schema"});
  require_as_decided(data_job("{source: synthetic}"), decide_on_stream(data_job("{source: synthetic}")));
}

TEST(DataDecision, MessagesToPredictAreReadByTheSchemaOfTheTraining) {
  const test::TempFolder folder;
  test::write_text(folder / "training.avsc", "a, b");
  test::write_text(folder / "same.avsc", "a, b");
  test::write_text(folder / "swapped.avsc", "b, a");
  DataRecord record;
  record.sources = format_files(topic_job(folder / "training.avsc"));
  test::write_text(folder / "checkpoint" / "data.json", to_json(record));
  require_format_of_training(folder / "checkpoint", topic_job(folder / "same.avsc"));
  expect_error([&] { require_format_of_training(folder / "checkpoint", topic_job(folder / "swapped.avsc")); },
               {"data.schema", "swapped.avsc", "not the file", "--accept-changed-data"});
}

TEST(DataDecision, IsSentAsText) {
  DataDecision decision;
  decision.found = {.train = 20, .validation = 4, .test = 0, .class_names = {"cats"}, .sources = {}};
  decision.found.sources["data.path/cats"] = {24, 1000, 77};
  decision.samples_crc32 = 0xffffffff;
  decision.left_out = {{1, 7, 19}, {0}, {}};
  decision.mean = {0.5};
  decision.std = {0.25};
  const std::string text = to_json(decision);
  EXPECT_EQ(to_json(data_decision_from_json(text, "rank 0")), text);
  const auto refused = [&](const char* field, const nlohmann::json& value, const char* sentence) {
    auto json = nlohmann::json::parse(text);
    json[field] = value;
    expect_error([&] { data_decision_from_json(json.dump(), "rank 0"); }, {"the data of rank 0", sentence});
  };
  refused("left_out_train", {3, 3}, "in ascending order");
  refused("left_out_train", {20}, "left_out_train contains 20; it must be a list of integers from 0 to 19");
  refused("found", 3, "found is 3");
  refused("mean", "x", "mean is");
}

}  // namespace
}  // namespace telar
