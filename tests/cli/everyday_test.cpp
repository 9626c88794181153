#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

class Everyday : public testing::Test {
 protected:
  void SetUp() override {
    std::string table = "visit_id,city,joined,size,species\n";
    for (int i = 0; i < 60; ++i)
      table += std::to_string(1000 + i) + "," + (i % 3 == 0 ? "Rome" : "Paris") + ",2026-" +
               (i % 2 == 0 ? "01" : "02") + "-" + std::to_string(10 + i % 15) + "," +
               std::to_string(i * i % 11) + ".5," + (i * i % 11 > 4 ? "cat" : "dog") + "\n";
    write_text(folder_ / "visits.csv", table);
  }
  CommandResult telar(const std::string& arguments) const { return telar_in(folder_.path(), arguments); }
  nlohmann::json json(const fs::path& file) const { return nlohmann::json::parse(read_text(folder_ / file)); }

  TempFolder folder_;
};

TEST_F(Everyday, InitWritesAJobThatTrains) {
  const CommandResult init = telar("init visits.csv");
  EXPECT_EQ(init.code, 0) << init.err;
  EXPECT_TRUE(says(init.out, "visits.yaml is written"));
  EXPECT_TRUE(says(init.out, "drop: [visit_id]"));
  EXPECT_TRUE(says(init.out, "samples: 43 for training, 5 for validation, 12 for the test"));
  EXPECT_TRUE(says(init.out, "city    category"));
  EXPECT_TRUE(says(init.err, "the label is taken to be 'species', the last column; --label names another"));
  EXPECT_EQ(telar("train visits.yaml --quiet --set training.epochs=1").code, 0);
  const CommandResult again = telar("init visits.csv");
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(says(again.err, "visits.yaml exists; --out names another file"));
}

TEST_F(Everyday, ALearningRateIsFound) {
  ASSERT_EQ(telar("init visits.csv").code, 0);
  const CommandResult found = telar(
      "find-rate visits.yaml --set training.batch=8 --to 100 --steps 60 --json rates.json --html rates.html");
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_TRUE(says(found.out, "A good start: --set optimizer.learning_rate="));
  EXPECT_TRUE(says(found.err, "step 6 of 60: learning rate"));
  EXPECT_FALSE(json("rates.json")["rows"].empty());
  EXPECT_TRUE(says(read_text(folder_ / "rates.html"), "Training loss while the learning rate grows"));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  EXPECT_EQ(telar("find-rate visits.yaml --from 1 --to 0.5").code, 2);
}

TEST_F(Everyday, FoldsAreTrainedOneAfterAnother) {
  write_text(
      folder_ / "job.yaml",
      "model: {name: mlp, options: {hidden: [4]}}\n"
      "data: {source: csv, path: visits.csv, drop: [visit_id], split: stratified, test: 0.2, folds: 3}\n"
      "training: {epochs: 2, batch: 16}\n");
  const CommandResult all = telar("train job.yaml --fold all --summary all.json");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_TRUE(says(all.out, "3 folds, mean ± standard deviation\nvalidation: loss "));
  const nlohmann::json folds = json("runs/job-1/folds.json");
  EXPECT_EQ(folds, json("all.json"));
  for (const char* figure : {"validation_loss", "validation_accuracy", "test_loss"}) {
    double sum = 0;
    double squares = 0;
    for (const char* fold : {"1", "2", "3"}) {
      const double value = json(std::string("runs/job-1/fold-") + fold + "/summary.json").at(figure);
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(folds.at(figure).at("mean").get<double>(), sum / 3, 1e-12) << figure;
    EXPECT_NEAR(folds.at(figure).at("deviation").get<double>(), std::sqrt((squares - sum * sum / 3) / 2),
                1e-7);
  }
  fs::remove_all(folder_ / "runs/job-1/fold-3");
  const CommandResult other =
      telar("train job.yaml --fold all --resume --output runs/job-1 --set training.epochs=1");
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(says(other.err,
                   "runs/job-1/fold-1 and runs/job-1/fold-3 were trained with different jobs, so they have "
                   "no mean: training.epochs: 2 → 1"));
  // What was lost is trained again, and the rest stays.
  fs::remove_all(folder_ / "runs/job-1/fold-3");
  const CommandResult resumed = telar("train job.yaml --fold all --resume --output runs/job-1");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(json("runs/job-1/folds.json").at("validation_loss"), folds.at("validation_loss"));
  const CommandResult mixed = telar("train job.yaml --resume");
  EXPECT_EQ(mixed.code, 2);
  EXPECT_TRUE(says(mixed.err, "runs/job-1 has a run for each fold; resume all with --fold all"));
  const CommandResult second = telar("train job.yaml --fold 2 --output second --quiet");
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(json("second/summary.json").at("validation_loss"),
            json("runs/job-1/fold-2/summary.json").at("validation_loss"));
  EXPECT_TRUE(says(telar("train job.yaml --fold all --output second").err, "second is the folder of a run"));
}

TEST_F(Everyday, AFigureThatAFoldLacksHasNoMean) {
  std::string table = "x,y\n";
  for (int i = 0; i < 60; ++i) table += std::to_string(i % 7) + (i < 20 && i % 2 == 0 ? ",1\n" : ",0\n");
  write_text(folder_ / "late.csv", table);  // whose last rows have one class, so there is no AUC
  write_text(folder_ / "job.yaml",
             "model: {name: mlp, options: {hidden: [4]}}\n"
             "data: {source: csv, path: late.csv, split: time, folds: 3}\n"
             "training: {epochs: 1, batch: 16, metrics: [auc]}\n");
  const CommandResult all = telar("train job.yaml --fold all");
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_TRUE(says(all.out, "auc nan ± nan"));
  EXPECT_FALSE(says(all.out, "test:"));
  const nlohmann::json auc = json("runs/job-1/folds.json").at("validation_auc");
  EXPECT_TRUE(auc.at("mean").is_null());
  EXPECT_TRUE(auc.at("of_folds").at(0).is_number());
  EXPECT_TRUE(auc.at("of_folds").at(1).is_null());
}

TEST_F(Everyday, InitNamesTheJobAfterTheFolder) {
  EXPECT_TRUE(says(telar("init ''").err, "DATA is empty"));
  fs::create_directories(folder_ / "photos" / "cat");
  EXPECT_TRUE(says(telar("init photos/. --out visits.csv").err, "visits.csv exists"));
  write_text(folder_ / "photos.yaml", "");
  EXPECT_TRUE(says(telar("init photos/.").err, "photos.yaml exists; --out names another file"));
}

TEST_F(Everyday, FoldsAreRefusedWhereThereAreNone) {
  write_text(folder_ / "job.yaml", "model: mlp\ndata: {source: csv, path: visits.csv}\n");
  const CommandResult none = telar("train job.yaml --fold all");
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "the job has no folds; give their number, as in --set data.folds=5"));
  EXPECT_FALSE(fs::exists(folder_ / "runs"));
  EXPECT_TRUE(says(telar("train job.yaml --fold 1").err, "the job has no folds"));
  EXPECT_TRUE(says(telar("train job.yaml --fold all --set data.folds=90").err, "each fold needs a sample"));
  EXPECT_FALSE(fs::exists(folder_ / "runs/job-1"));
  EXPECT_TRUE(says(telar("train job.yaml --fold some").err, "must be the number of a fold, or all"));
  EXPECT_TRUE(
      says(telar("train job.yaml --fold 6 --set data.folds=5").err, "data.fold is 6, but there are 5 folds"));
}

}  // namespace
}  // namespace telar::test
