#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/train/job_reader.h"
#include "telar/train/pipeline.h"
#include "telar/train/run.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

using Values = std::set<double>;

/// A column of a part, normalised by nothing.
Values values_in(const DatasetPtr& part, size_t column) {
  Values values;
  if (part == nullptr) return values;
  std::vector<float> features(static_cast<size_t>(part->spec().features.elements()));
  std::vector<std::byte> label(part->spec().label_bytes());
  for (int64_t i = 0; i < part->size(); ++i) {
    part->read(i, {}, std::as_writable_bytes(std::span(features)), label);
    values.insert(features.at(column));
  }
  return values;
}

bool share_a_value(const Values& a, const Values& b) {
  return std::ranges::any_of(a, [&](double value) { return b.contains(value); });
}

/// 120 rows: `code` tells the group in numbers, `day` is a time; `part` is train, validation or test.
class SplitRun : public ::testing::Test {
 protected:
  SplitRun() {
    std::ofstream table(folder_ / "t.csv");
    table << "code,row,who,day,part,y\n";
    for (int i = 0; i < 120; ++i) {
      const int group = i * i % 13;
      const int day = i * 7 % 120;
      table << group << ',' << i << ",w" << group << ',' << day << ','
            << (day < 80    ? "train"
                : day < 100 ? "validation"
                            : "test")
            << ',' << (i % 4 == 0) << '\n';
    }
  }

  Job job(const std::string& data, const std::string& more = "") const {
    return parse_job("model: mlp\ndata: {source: csv, normalise: false, path: " +
                         (folder_ / "t.csv").string() + ", " + data + "}\n" + more,
                     "job.yaml");
  }
  Datasets open(const std::string& data, uint64_t seed = 1) const {
    DataJob opened = job(data).data;
    return open_datasets(opened, seed);
  }
  std::string refusal(const std::string& data) const {
    return sentence_of([&] { job(data); });
  }

  test::TempFolder folder_;
};

TEST_F(SplitRun, NoGroupIsInTwoParts) {
  const std::string by_group = "columns: [code, row], test: 0.2, split: group, split_column: who";
  const Datasets parts = open(by_group + ", validation: 0.2");
  const Values train = values_in(parts.train, 0);
  EXPECT_FALSE(share_a_value(train, values_in(parts.validation, 0)));
  EXPECT_FALSE(share_a_value(train, values_in(parts.test, 0)));
  EXPECT_FALSE(share_a_value(values_in(parts.validation, 0), values_in(parts.test, 0)));
  EXPECT_EQ(parts.train->size() + parts.validation->size() + parts.test->size(), 120);
  Values validated;
  for (const char* fold : {"1", "2", "3"}) {
    const Datasets of_fold = open(by_group + ", folds: 3, fold: " + fold);
    EXPECT_EQ(values_in(of_fold.test, 0), values_in(parts.test, 0));
    EXPECT_FALSE(share_a_value(values_in(of_fold.train, 0), values_in(of_fold.validation, 0)));
    validated.merge(values_in(of_fold.validation, 1));
  }
  EXPECT_EQ(std::ssize(validated), 120 - parts.test->size());
}

TEST_F(SplitRun, ByTimeTheLatestAreSetAside) {
  const std::string by_time = "columns: [day], test: 0.25, split: time, split_column: day";
  const Datasets parts = open(by_time + ", validation: 0.2");
  EXPECT_EQ(*values_in(parts.test, 0).begin(), 90);
  EXPECT_EQ(*values_in(parts.validation, 0).begin(), 72);
  EXPECT_EQ(*values_in(parts.train, 0).rbegin(), 71);
  const Datasets first = open(by_time + ", folds: 4, fold: 1");
  EXPECT_EQ(*values_in(first.train, 0).rbegin() + 1, *values_in(first.validation, 0).begin());
  EXPECT_EQ(first.train->size(), 18);
  const Datasets rows = open("columns: [row], split: time");  // in the order of the rows
  EXPECT_EQ(*values_in(rows.validation, 0).begin(), 108);
}

TEST_F(SplitRun, AColumnNamesTheParts) {
  DataJob data = job("columns: [day], split: column, split_column: part").data;
  const Datasets parts = open_datasets(data, 1);
  EXPECT_EQ(parts.train->size(), 80);
  EXPECT_EQ(*values_in(parts.validation, 0).begin(), 80);
  EXPECT_EQ(parts.validation->size(), 20);
  EXPECT_EQ(parts.test->size(), 20);
  EXPECT_EQ(open_test_dataset(data, 1)->size(), 20);  // what `telar evaluate` opens
}

TEST_F(SplitRun, StratifiedPartsHaveTheClassesOfAll) {
  const auto quarter = [](const DatasetPtr& part) {
    int64_t ones = 0;
    std::vector<float> features(static_cast<size_t>(part->spec().features.elements()));
    int32_t label = 0;
    for (int64_t i = 0; i < part->size(); ++i) {
      part->read(i, {}, std::as_writable_bytes(std::span(features)),
                 std::as_writable_bytes(std::span(&label, 1)));
      ones += label;
    }
    return ones;
  };
  for (const uint64_t seed : {1U, 2U, 3U}) {
    const Datasets parts = open("columns: [day], split: stratified, validation: 0.2, test: 0.2", seed);
    EXPECT_EQ(parts.test->size(), 24);
    EXPECT_EQ(quarter(parts.test), 6);
    EXPECT_NEAR(static_cast<double>(quarter(parts.validation)), 0.25 * 19, 1);
    EXPECT_EQ(quarter(parts.train) + quarter(parts.validation) + quarter(parts.test), 30);
  }
}

TEST_F(SplitRun, HasASeedOfItsOwn) {
  const auto validated = [&](const std::string& data, uint64_t seed) {
    return values_in(open("columns: [row]" + data, seed).validation, 0);
  };
  EXPECT_NE(validated("", 1), validated("", 2));
  EXPECT_EQ(validated(", split_seed: 7", 1), validated(", split_seed: 7", 2));
  EXPECT_EQ(validated(", split_seed: 2", 1), validated("", 2));
}

TEST_F(SplitRun, MeansAndTextsAreThoseOfTheTrainingPart) {
  DataJob data = job("columns: [day, who], split: time, split_column: day, validation: 0.5").data;
  data.normalise = true;
  open_datasets(data, 1);
  EXPECT_NEAR(data.mean.at(0), 29.5, 1e-9);  // of 0 … 59, not of 0 … 119
}

TEST_F(SplitRun, EarlyStoppingNeedsAPartForValidation) {
  std::ofstream(folder_ / "p.csv") << "x,part,y\n1,train,0\n2,train,1\n3,test,1\n";
  const Job without =
      parse_job("model: mlp\ndata: {source: csv, split: column, split_column: part, path: " +
                    (folder_ / "p.csv").string() + "}\ntraining: {early_stopping: {patience: 2}}\n",
                "job.yaml", {"output.folder=" + (folder_ / "run").string()});
  EXPECT_TRUE(says(sentence_of([&] { run_job(without, {}); }),
                   "patience is 2, but data.split_column names no sample for validation"));
}

TEST_F(SplitRun, RefusesWhatHasNoMeaning) {
  EXPECT_TRUE(says(refusal("split: group"), "data.split is group; data.split_column must name the column"));
  EXPECT_TRUE(says(refusal("split_column: who"), "data.split is random; it must be group, time or column"));
  EXPECT_TRUE(says(refusal("folds: 1"), "at least 2 are needed"));
  EXPECT_TRUE(says(refusal("folds: 3, fold: 4"), "data.fold is 4, but there are 3 folds"));
  EXPECT_TRUE(says(refusal("split: column, split_column: part, folds: 3"), "a column names the parts"));
  EXPECT_TRUE(says(refusal("split: column, split_column: part, test: 0.1"), "a column names the parts"));
  EXPECT_TRUE(says(refusal("split: stratified, classes: 0"), "without classes"));
  EXPECT_TRUE(says(refusal("split: time, spread: true"), "no process has all samples"));
  EXPECT_TRUE(says(sentence_of([&] {
                     open("split: column, split_column: part, test_path: " + (folder_ / "t.csv").string());
                   }),
                   "data.test_path is set, and 20 rows"));
  EXPECT_TRUE(says(
      sentence_of([] { parse_job("model: mlp\ndata: {source: synthetic, split: group}\n", "job.yaml"); }),
      "samples of synthetic have no columns"));
  EXPECT_TRUE(says(sentence_of([] {
                     parse_job("model: mlp\ndata: {source: images, path: p, split: time}\n", "job.yaml");
                   }),
                   "samples of images are in the order of their classes; choose random or stratified"));
}

}  // namespace
}  // namespace telar
