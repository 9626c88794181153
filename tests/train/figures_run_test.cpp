#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "support/sentences.h"
#include "telar/train/job_reader.h"
#include "telar/train/pipeline.h"
#include "telar/train/run.h"
#include "telar/train/trained.h"

namespace telar {
namespace {

using Json = nlohmann::json;
using test::says;
using test::sentence_of;

namespace fs = std::filesystem;

/// Rows "x,y,label" of which a fifth has the label 1, and `labels` in its place.
void write_rows(const fs::path& path, const std::vector<std::string>& labels) {
  std::ofstream file(path);
  file << "a,b,label\n";
  for (int i = 0; i < 200; ++i) {
    const bool second = i % 5 == 0;
    file << std::sin(1.7 * i) + (second ? 0.8 : 0) << ',' << std::cos(2.3 * i) << ','
         << labels[second ? 1 : 0] << '\n';
  }
}

class FiguresOfRun : public ::testing::Test {
 protected:
  FiguresOfRun() { write_rows(table(), {"0", "1"}); }

  fs::path table() const { return folder_ / "rows.csv"; }
  std::string job(const std::string& classes) const {
    return "model: {name: mlp, options: {hidden: [8]}}\ndata: {source: csv, path: " + table().string() +
           ", test: 0.2, classes: " + classes + "}\ntraining: {epochs: 2, batch: 16}\n";
  }
  RunSummary run(const std::string& text, std::vector<std::string> overrides, const std::string& name) {
    overrides.push_back("output.folder=" + (folder_ / name).string());
    return run_job(parse_job(text, "job.yaml", overrides), {});
  }
  /// The last line of this kind.
  Json line_of(const std::string& name, const std::string& kind) const {
    std::ifstream file(folder_ / name / "metrics.jsonl");
    Json found;
    for (std::string line; std::getline(file, line);)
      if (Json json = Json::parse(line); json.at("kind") == kind) found = std::move(json);
    return found;
  }
  Json summary_of(const std::string& name) const {
    return Json::parse(std::ifstream(folder_ / name / "summary.json"));
  }

  test::TempFolder folder_;
};

double sum_of(const Json& rows) {
  double sum = 0;
  for (const Json& row : rows)
    for (const Json& count : row) sum += count.get<double>();
  return sum;
}

TEST_F(FiguresOfRun, AreInItsLogItsSummaryAndItsEvaluation) {
  const std::string metrics = "training.metrics=[f1, auc, confusion_matrix, perplexity]";
  const RunSummary summary = run(job("2"), {metrics, "loss={name: focal, balanced: true}"}, "run");
  const Json epoch = line_of("run", "epoch");
  EXPECT_EQ(sum_of(epoch.at("train_confusion_matrix")), 144);
  EXPECT_EQ(sum_of(epoch.at("validation_confusion_matrix")), 16);
  EXPECT_EQ(epoch.at("validation_f1_per_class").size(), 2U);
  EXPECT_TRUE(epoch.at("train_auc").is_number());
  const Json step = line_of("run", "step");
  EXPECT_TRUE(step.contains("f1_macro"));
  EXPECT_FALSE(step.contains("confusion_matrix"));
  const Json test = line_of("run", "test");
  const Json whole = summary_of("run");
  EXPECT_EQ(sum_of(whole.at("test_confusion_matrix")), 40);
  for (const char* name : {"f1_macro", "f1_micro", "f1_per_class", "auc", "confusion_matrix", "perplexity"})
    EXPECT_EQ(test.at(name), whole.at(std::string("test_") + name)) << name;
  // The loss counts each class the same; the perplexity does not.
  const Job as_run = read_job(folder_ / "run" / "job.yaml");
  ASSERT_EQ(as_run.loss.class_weights.size(), 2U);
  EXPECT_NEAR(as_run.loss.class_weights[1] / as_run.loss.class_weights[0], 4, 1);

  const Trained trained = load_trained(folder_ / "run", false);
  const DatasetPtr data = open_test_dataset(trained.job.data, 1);
  EXPECT_EQ(evaluate(trained, *data), summary.test);
}

TEST_F(FiguresOfRun, AreThoseOfOneWorkerUnderEveryStrategy) {
  const std::string metrics = "training.metrics=[precision, f1, auc, confusion_matrix]";
  const std::vector<std::string> common = {metrics, "optimizer={name: sgd, learning_rate: 0.1}"};
  const RunSummary single = run(job("2"), common, "single");
  for (const std::string strategy :
       {"{name: mirrored, replicas: 2, threads: 1, shares: [1, 3]}",
        "{name: sharded, replicas: 2, threads: 1}", "{name: pipeline, stages: 2, threads: 1}",
        "{name: tensor, ways: 2, threads: 1, split: [\"*=columns\"]}"}) {
    std::vector<std::string> overrides = common;
    overrides.push_back("strategy=" + strategy);
    const RunSummary other = run(job("2"), overrides, strategy.substr(7, 6));
    for (const auto values : {&RunSummary::train, &RunSummary::validation, &RunSummary::test}) {
      ASSERT_EQ((other.*values).size(), (single.*values).size());
      for (size_t i = 0; i < (single.*values).size(); ++i)
        EXPECT_NEAR((other.*values)[i], (single.*values)[i], 1e-4) << strategy << " " << i;
    }
  }
}

TEST_F(FiguresOfRun, OfALabelOfZeroOrOneAreThoseOfItsProbability) {
  run(job("0"), {"loss=binary_cross_entropy", "training.metrics=[f1, auc]"}, "binary");
  EXPECT_TRUE(summary_of("binary").contains("test_accuracy"));
  const Trained trained = load_trained(folder_ / "binary", false);
  const DatasetPtr data = open_test_dataset(trained.job.data, 1);
  for (const float p : predict(trained, *data)) EXPECT_TRUE(p > 0 && p < 1) << p;

  write_rows(table(), {"0", "1.5"});
  EXPECT_TRUE(says(sentence_of([&] { run(job("0"), {"loss=binary_cross_entropy"}, "wrong"); }),
                   "a label is 1.5; with this loss, each number of a label is from 0 to 1"));
  write_rows(table(), {"0", "0.5"});
  EXPECT_TRUE(says(sentence_of([&] { run(job("0"), {"loss=focal"}, "wrong"); }), "is 0 or 1"));
}

TEST_F(FiguresOfRun, OfNumbersMeasureFromTheirMean) {
  write_rows(table(), {"20000", "20001"});  // as f32, squares of these differ by nothing
  const RunSummary summary = run(job("0"),
                                 {"loss=huber", "training.metrics=[mae, rmse, r2]",
                                  "optimizer.learning_rate=1e-9", "training.early_stopping.metric=mae"},
                                 "numbers");
  const Job as_run = read_job(folder_ / "numbers" / "job.yaml");
  EXPECT_NEAR(as_run.data.target_mean.at(0), 20000.2, 0.1);
  // R² of predictions near 0: 1 − mean square / variance.
  const Json test = summary_of("numbers");
  const double variance = 0.16;
  EXPECT_NEAR(
      (1 - test.at("test_r2").get<double>()) * variance / std::pow(test.at("test_rmse").get<double>(), 2), 1,
      0.4);
  EXPECT_NEAR(test.at("test_mae").get<double>(), 20000, 5);
  EXPECT_EQ(summary.figures->numbers(), (std::vector<std::string>{"loss", "mae", "rmse", "r2"}));
}

TEST_F(FiguresOfRun, RefuseWhatDoesNotFit) {
  const auto mistake = [&](const std::string& classes, const std::vector<std::string>& overrides) {
    return sentence_of([&] { run(job(classes), overrides, "wrong"); });
  };
  EXPECT_TRUE(says(mistake("2", {"training.metrics=[r2]"}), "the metric r2 is for numbers"));
  EXPECT_TRUE(says(mistake("2", {"training.metrics=[f1, f1]"}), "training.metrics names f1 twice"));
  EXPECT_TRUE(says(mistake("2", {"loss=huber"}), "loss is huber, but the labels are 2 classes"));
  EXPECT_TRUE(
      says(mistake("0", {"loss.balanced=true"}), "loss.balanced is given, but the labels are numbers"));
  EXPECT_TRUE(says(mistake("2", {"loss.class_weights=[1, 2, 3]"}), "there are 3 class weights"));
  EXPECT_TRUE(says(mistake("2", {"training.early_stopping.metric=auc"}),
                   "the metric for early stopping is 'auc'; it must be loss or accuracy"));
  EXPECT_TRUE(says(mistake("2", {"loss.gamma=2"}), "loss.gamma is for loss.name focal"));
  EXPECT_TRUE(
      says(mistake("2", {"loss=focal", "training.label_smoothing=0.1"}), "only cross_entropy has it"));
}

}  // namespace
}  // namespace telar
