#include "telar/train/pipeline.h"
#include "support/sentences.h"

#include <gtest/gtest.h>

#include <cmath>

#include "io/temp_folder.h"
#include "telar/core/error.h"
#include "telar/train/job_reader.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

DataJob data_of(const std::string& data) {
  return parse_job("model: mlp\ndata: " + data + "\n", "job.yaml").data;
}

std::vector<float> features_of(const Dataset& data, int64_t index) {
  std::vector<float> features(data.spec().feature_bytes() / sizeof(float));
  std::vector<std::byte> label(data.spec().label_bytes());
  data.read(index, {}, std::as_writable_bytes(std::span(features)), label);
  return features;
}

std::string mistake_in_data(const std::string& data) {
  return sentence_of([&] {
    DataJob job = data_of(data);
    open_datasets(job, 1);
  });
}

/// A CSV file of 100 rows: a feature with mean 10 and standard deviation 2, and a feature that is always 7.
void write_table(const std::filesystem::path& path) {
  std::string text = "a,b,label\n";
  for (int i = 0; i < 100; ++i)
    text += std::string(i % 2 == 0 ? "8" : "12") + ",7," + std::to_string(i % 3) + "\n";
  test::write_text(path, text);
}

TEST(Pipeline, SplitsTrainValidationAndTestWithoutOverlap) {
  const test::TempFolder folder;
  write_table(folder / "t.csv");
  DataJob data = data_of("{source: csv, path: " + (folder / "t.csv").string() +
                         ", classes: 3, validation: 0.2, test: 0.25, limit: 80}");
  const Datasets sets = open_datasets(data, 1);
  EXPECT_EQ(sets.test->size(), 20);
  EXPECT_EQ(sets.validation->size(), 12);
  EXPECT_EQ(sets.train->size(), 48);
}

TEST(Pipeline, MeasuresMeanAndDeviationOnceAndStoresThemInTheJob) {
  const test::TempFolder folder;
  write_table(folder / "t.csv");
  DataJob data =
      data_of("{source: csv, path: " + (folder / "t.csv").string() + ", classes: 3, validation: 0, test: 0}");
  const Datasets sets = open_datasets(data, 1);
  ASSERT_EQ(data.mean.size(), 2U);
  EXPECT_NEAR(data.mean[0], 10, 1e-9);
  EXPECT_NEAR(data.std[0], 2, 1e-9);
  EXPECT_EQ(data.std[1], 1) << "a constant column is not divided by 0";
  EXPECT_NEAR(features_of(*sets.train, 0)[0], -1, 1e-6);
  EXPECT_NEAR(features_of(*sets.train, 1)[0], 1, 1e-6);
  EXPECT_NEAR(features_of(*sets.train, 1)[1], 0, 1e-6);

  data.mean = {0, 0};
  data.std = {4, 1};
  EXPECT_NEAR(features_of(*open_datasets(data, 1).train, 1)[0], 3, 1e-6)
      << "given numbers are not measured again";
}

TEST(Pipeline, AugmentsTrainingSamplesOnly) {
  DataJob data =
      data_of("{source: synthetic, shape: [1, 8, 8], samples: 40, augment: {padding: 2, flip: true}}");
  const Datasets sets = open_datasets(data, 1);
  EXPECT_TRUE(sets.train->random());
  EXPECT_FALSE(sets.validation->random());
  EXPECT_FALSE(sets.test->random());
}

TEST(Pipeline, TestSamplesMustLookLikeTrainingSamples) {
  const test::TempFolder folder;
  write_table(folder / "t.csv");
  test::write_text(folder / "wide.csv", "a,b,c,label\n1,2,3,0\n");
  EXPECT_TRUE(says(mistake_in_data("{source: csv, classes: 3, path: " + (folder / "t.csv").string() +
                                   ", test_path: " + (folder / "wide.csv").string() + "}"),
                   "[2] and the test samples [3]"));
}

TEST(Pipeline, KnowsPublishedDataWithoutItsFiles) {
  EXPECT_EQ(spec_without_files(data_of("{source: cifar100, path: nowhere, label_set: coarse}"))->classes, 20);
  EXPECT_EQ(spec_without_files(data_of("fashion-mnist"))->features, (Shape{1, 28, 28}));
  EXPECT_FALSE(spec_without_files(data_of("{source: csv, path: nowhere}")));
  EXPECT_TRUE(says(mistake_in_data("{source: fashion-mnist, path: /nowhere}"), "/nowhere"));
}

}  // namespace
}  // namespace telar
