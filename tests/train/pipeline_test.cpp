#include "telar/train/pipeline.h"
#include "support/sentences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "io/temp_folder.h"
#include "support/picture_folder.h"
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

std::vector<int32_t> classes_in(const Dataset& data) {
  std::vector<int32_t> classes;
  std::vector<std::byte> features(data.spec().feature_bytes());
  for (int64_t i = 0; i < data.size(); ++i) {
    int32_t label = 0;
    data.read(i, {}, features, std::as_writable_bytes(std::span(&label, 1)));
    classes.push_back(label);
  }
  return classes;
}

TEST(Pipeline, OfOneFolderForEachClassALimitTakesSomeOfEachClass) {
  const test::TempFolder folder;
  for (const char* name : {"x", "y", "z"})
    for (int i = 0; i < 4; ++i)
      test::write_text(folder / "texts" / name / (std::to_string(i) + ".txt"),
                       fmt::format("{}{} all", name, i));
  DataJob texts = data_of("{source: labelled_texts, form: folder, path: " + (folder / "texts").string() +
                          ", length: 3, limit: 6, validation: 0.5, split: stratified}");
  const Datasets opened = open_datasets(texts, 1);
  EXPECT_EQ(classes_in(*opened.train), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(classes_in(*opened.validation), (std::vector<int32_t>{0, 1, 2}));
  const std::vector<std::string> words = texts.options.texts("words");
  ASSERT_EQ(words.size(), 5) << "those of the three training samples";
  for (size_t i = 2; i < words.size(); ++i) EXPECT_TRUE(words[i][1] == '0' || words[i][1] == '2') << words[i];

  const test::PictureFolder pictures(folder / "pictures");
  DataJob images = data_of("{source: images, path: " + pictures.path().string() +
                           ", shape: [3, 8, 8], limit: 4, validation: 0}");
  const std::vector<int32_t> classes = classes_in(*open_datasets(images, 1).train);
  EXPECT_EQ(std::set<int32_t>(classes.begin(), classes.end()).size(), 2);
  images.rules = 3;  // as the run began that is resumed
  EXPECT_EQ(classes_in(*open_datasets(images, 1).train), (std::vector<int32_t>{0, 0, 0, 0}));
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

DataJob table_job(const std::filesystem::path& path, const std::string& more) {
  return data_of("{source: csv, path: " + path.string() + ", " + more + "}");
}

TEST(Pipeline, MomentsAreThoseOfAllRows) {
  const test::TempFolder folder;
  std::string text = "product,price,label\n";
  for (int i = 0; i < 40'000; ++i) text += fmt::format("{},{},{}\n", i % 20, 50 * (i % 20), i % 2);
  test::write_text(folder / "t.csv", text);
  DataJob data = table_job(folder / "t.csv", "classes: 2, validation: 0");
  open_datasets(data, 1);
  EXPECT_NEAR(data.mean.at(0), 9.5, 1e-9);
  EXPECT_NEAR(data.mean.at(1), 475, 1e-7);
  EXPECT_NEAR(data.std.at(0), std::sqrt(33.25), 1e-9);
}

TEST(Pipeline, NumbersAreF64UntilTheyAreNormalised) {
  const test::TempFolder folder;
  std::string text = "time,metres,label\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("{},{}e-7,{}\n", 1'700'000'000 + i, 1 + i % 2, i % 2);
  test::write_text(folder / "t.csv", text);
  DataJob data = table_job(folder / "t.csv", "classes: 2, validation: 0");
  const Datasets sets = open_datasets(data, 1);
  EXPECT_TRUE(sets.notes.empty());
  EXPECT_FALSE(sets.train->spec().wide);
  const double deviation = std::sqrt((100.0 * 100 - 1) / 12);
  for (int i = 0; i < 100; ++i) {
    EXPECT_NEAR(features_of(*sets.train, i)[0], (i - 49.5) / deviation, 1e-6) << i;
    EXPECT_NEAR(features_of(*sets.train, i)[1], i % 2 == 0 ? -1 : 1, 1e-6) << i;
  }
  data.rules = kFirstRules;  // a run from before reads as it did: 1,700,000,000 ± 64 are one f32
  EXPECT_EQ(features_of(*open_datasets(data, 1).train, 0)[0],
            features_of(*open_datasets(data, 1).train, 60)[0]);
  data.normalise = false;
  EXPECT_EQ(features_of(*open_datasets(data, 1).train, 0)[0], 1.7e9F);
}

TEST(Pipeline, AConstantColumnIsSaid) {
  const test::TempFolder folder;
  write_table(folder / "t.csv");
  DataJob data = table_job(folder / "t.csv", "classes: 3");
  const Datasets sets = open_datasets(data, 1);
  ASSERT_EQ(sets.notes.size(), 1U);
  EXPECT_TRUE(says(sets.notes[0], "the training samples have one value only in column 'b'"));
}

TEST(Pipeline, TestTablesAreReadByTheNamesOfTheTrainingTable) {
  const test::TempFolder folder;
  write_table(folder / "t.csv");
  test::write_text(folder / "test.csv", "label,id,b,a\n2,77,7,8\n");
  DataJob data = table_job(folder / "t.csv", "classes: 3, test_path: " + (folder / "test.csv").string());
  const Datasets sets = open_datasets(data, 1);
  EXPECT_EQ(data.options.texts("columns"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.options.text("label"), "label");
  EXPECT_NEAR(features_of(*sets.test, 0)[0], -1, 0.1);
  EXPECT_EQ(features_of(*sets.test, 0)[1], 0);
  EXPECT_TRUE(says(sets.notes.at(0), "test.csv: the model does not take 'id'; left out"));
  test::write_text(folder / "test.csv", "label,b,c\n2,7,8\n");
  EXPECT_TRUE(says(sentence_of([&] { open_test_dataset(data, 1); }),
                   "test.csv, line 1: there is no column 'a'; the table has 'label', 'b' and 'c'"));
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
  test::write_text(folder / "t.csv", "1,2,0\n2,3,1\n");
  test::write_text(folder / "wide.csv", "1,2,3,0\n");
  EXPECT_TRUE(
      says(mistake_in_data("{source: csv, header: false, classes: 3, path: " + (folder / "t.csv").string() +
                           ", test_path: " + (folder / "wide.csv").string() + "}"),
           "[2] and the test samples [3]"));
}

TEST(Pipeline, KnowsPublishedDataWithoutItsFiles) {
  EXPECT_EQ(spec_without_files(data_of("{source: cifar100, path: nowhere, label_set: coarse}"))->classes, 20);
  EXPECT_EQ(spec_without_files(data_of("fashion-mnist"))->features, (Shape{1, 28, 28}));
  EXPECT_FALSE(spec_without_files(data_of("{source: csv, path: nowhere}")));
  EXPECT_TRUE(says(mistake_in_data("{source: fashion-mnist, path: /nowhere}"), "/nowhere"));
}

class Pictures : public testing::Test {
 protected:
  DataJob data(const std::string& rest) const {
    return data_of(
        fmt::format("{{source: images, path: {}, shape: [3, 8, 8], mean: [0, 0, 0], std: [1, 1, 1], {}}}",
                    pictures_.path().string(), rest));
  }
  static Datasets opened(DataJob job, std::vector<std::string>* warnings = nullptr) {
    const SampleChecks checks{.threads = 2, .watch = {}, .warn = [warnings](const std::string& text) {
                                if (warnings != nullptr) warnings->push_back(text);
                              }};
    return open_datasets(job, 1, &checks);
  }

  test::TempFolder folder_;
  test::PictureFolder pictures_{folder_ / "pictures"};
};

TEST_F(Pictures, DamagedOnesAreFoundBeforeTheFirstEpochIfTheyAreNotForTraining) {
  for (int i = 0; i < 20; ++i) pictures_.damage(i);
  EXPECT_TRUE(says(sentence_of([&] { opened(data("validation: 0.2")); }),
                   "4 of the 4 validation samples cannot be read; data.on_error: skip leaves them out"));
  EXPECT_TRUE(
      says(sentence_of([&] { opened(data("validation: 0, test: 0.1")); }), "2 of the 2 test samples"));
  EXPECT_EQ(opened(data("validation: 0")).train->size(), 20) << "the first epoch reads them";
}

TEST_F(Pictures, DamagedOnesAreNamedCountedAndLeftOut) {
  const Datasets before = opened(data("validation: 0.2, test: 0.2, on_error: skip"));
  EXPECT_EQ(before.left_out.count(), 0);
  for (const int i : {0, 1, 2, 10, 11, 12}) pictures_.damage(i);
  pictures_.cut(19, 5);  // not even a header
  std::vector<std::string> warnings;
  const Datasets after = opened(data("validation: 0.2, test: 0.2, on_error: skip"), &warnings);
  EXPECT_EQ(after.left_out.count(), 7);
  EXPECT_EQ(after.train->size() + after.validation->size() + after.test->size(), 13);
  ASSERT_EQ(warnings.size(), 7U);
  for (const std::string& warning : warnings) EXPECT_TRUE(says(warning, "left out of the "));
  for (int64_t i = 0; i < after.train->size(); ++i) EXPECT_NO_THROW(features_of(*after.train, i));
}

TEST_F(Pictures, OnesThatAreLeftOutMoveNoOtherOneIntoAnotherPart) {
  const auto divided = [&] {
    DataJob job = data("validation: 0.5, on_error: skip");
    return opened(job);
  };
  const auto firsts = [](const Dataset& samples) {
    std::set<float> values;
    for (int64_t i = 0; i < samples.size(); ++i) values.insert(features_of(samples, i)[0]);
    return values;
  };
  const std::set<float> before = firsts(*divided().validation);
  pictures_.damage(3);
  const std::set<float> after = firsts(*divided().validation);
  EXPECT_TRUE(std::includes(before.begin(), before.end(), after.begin(), after.end()));
  EXPECT_GE(after.size() + 1, before.size());
}

TEST_F(Pictures, SomeMustBeLeft) {
  for (int i = 0; i < 20; ++i) pictures_.damage(i);
  EXPECT_TRUE(says(sentence_of([&] { opened(data("validation: 0, on_error: skip")); }),
                   "none of the 20 training samples can be read; the first: "));
}

TEST_F(Pictures, AFileThatCannotBeReadEndsTheRunAndIsNotLeftOut) {
  // Reading this file fails with EIO, as on a disk that fails.
  std::filesystem::remove(pictures_.file(3));
  std::filesystem::create_symlink("/proc/self/mem", pictures_.file(3));
  for (const char* on_error : {"skip", "stop"}) {
    EXPECT_TRUE(says(sentence_of([&] { opened(data(fmt::format("validation: 0, on_error: {}", on_error))); },
                                 Error::Kind::run),
                     "03.png: was listed in its folder, but cannot be read: Input/output error"));
  }
}

TEST_F(Pictures, HeadersAloneCanBeRead) {
  for (int i = 0; i < 20; ++i) pictures_.damage_inside(i);
  DataJob job = data("validation: 0.2");
  const SampleChecks headers{.threads = 2, .watch = {}, .warn = {}, .decode = false};
  EXPECT_EQ(open_datasets(job, 1, &headers).train->size(), 16);
  pictures_.cut(4, 20);
  EXPECT_TRUE(says(sentence_of([&] { open_datasets(job, 1, &headers); }), "cut off within its header"));
}

TEST_F(Pictures, OnlyTheFirstTenThatAreLeftOutAreNamed) {
  for (int i = 0; i < 15; ++i) pictures_.damage(i);
  std::vector<std::string> warnings;
  EXPECT_EQ(opened(data("validation: 0, on_error: skip"), &warnings).left_out.count(), 15);
  ASSERT_EQ(warnings.size(), 11U);
  EXPECT_TRUE(says(warnings.back(), "further samples are left out"));
}

}  // namespace
}  // namespace telar
