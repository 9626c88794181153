#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "support/sentences.h"
#include "telar/bench/compare.h"
#include "telar/bench/scaling.h"

namespace telar::bench {
namespace {

using test::expect_error;
using test::says;
using test::TempFolder;
using test::write_text;

/// A job that trains in moments.
std::filesystem::path small_job(const TempFolder& folder, const std::string& more = "") {
  write_text(folder / "job.yaml",
             "model: {name: mlp, options: {hidden: [8]}}\n"
             "data: {source: synthetic, samples: 300, shape: [1, 4, 4], classes: 2}\n"
             "training: {epochs: 3, batch: 16" +
                 more +
                 "}\n"
                 "strategy: {name: mirrored, threads: 1}\n"
                 "output: {tensorboard: false}\n");
  return folder / "job.yaml";
}

const Figure& figure(const ResultRow& row, const std::string& name) {
  const Figure* found = find_figure(row, name);
  if (found == nullptr) throw std::runtime_error("no figure " + name);
  return *found;
}

TEST(Compare, TrainsAJobUnderEveryStrategyAndRecommendsOne) {
  const TempFolder folder;
  CompareOptions options{test::telar_program(),
                         small_job(folder),
                         {"strategy.push_every=2"},
                         {"single", "mirrored", "downpour:1"}};
  options.folder = folder / "runs";
  std::vector<size_t> curves_after;
  SweepWatch watch;
  watch.measured = [&](const Result& result) { curves_after.push_back(result.charts.at(0).curves.size()); };
  const Result result = compare_strategies(options, watch);
  EXPECT_EQ(curves_after, (std::vector<size_t>{1, 2, 3})) << "results are reported after each training";
  ASSERT_EQ(result.rows.size(), 3U);
  for (const ResultRow& row : result.rows) {
    EXPECT_EQ(row.impossible, "") << row.setting[0];
    EXPECT_GT(figure(row, "rate").value, 0) << row.setting[0];
    EXPECT_TRUE(figure(row, result.drawn).value) << "all rows reach the target that is compared";
  }
  EXPECT_EQ(result.rows[1].setting, (std::vector<std::string>{"mirrored", "2"}));
  EXPECT_NEAR(*figure(result.rows[0], "accuracy").value, *figure(result.rows[1], "accuracy").value, 1e-9);
  EXPECT_EQ(result.charts.size(), 6U);
  EXPECT_TRUE(says(result.remarks.at(0), "Choose "));
  EXPECT_TRUE(std::filesystem::exists(folder / "runs" / "mirrored-2" / "summary.json"));
}

TEST(Compare, AStrategyThatNeedsTwoWorkersIsMeasuredToo) {
  const TempFolder folder;
  CompareOptions options{test::telar_program(),
                         small_job(folder),
                         {"model.options.hidden=[128]", R"(strategy.split=["fc1=columns", "fc2=rows"])"},
                         {"tensor"}};
  options.workers = 1;
  options.folder = folder / "runs";
  const Result result = compare_strategies(options, {});
  EXPECT_EQ(result.rows[0].impossible, "");
  EXPECT_EQ(result.rows[0].setting, (std::vector<std::string>{"tensor", "2"})) << "what it is trained with";
}

TEST(Compare, ARegressionIsChosenByItsLoss) {
  const TempFolder folder;
  CompareOptions options{
      test::telar_program(), small_job(folder), {"data.classes=0"}, {"single", "mirrored"}};
  options.folder = folder / "runs";
  const Result result = compare_strategies(options, {});
  for (const ResultRow& row : result.rows) {
    EXPECT_EQ(row.impossible, "");
    EXPECT_TRUE(figure(row, result.drawn).value) << "seconds to the common loss";
    EXPECT_TRUE(figure(row, "loss").value);
    EXPECT_EQ(find_figure(row, "accuracy"), nullptr);
  }
  EXPECT_TRUE(says(result.remarks.at(0), "it reached a loss of")) << result.remarks.at(0);
}

TEST(Compare, AnUnsuitableStrategyIsARowWithTheReason) {
  const TempFolder folder;
  CompareOptions options{
      test::telar_program(), small_job(folder, ", clip_norm: 1"), {}, {"single", "sync_ps", "pipeline:40"}};
  options.folder = folder / "runs";
  const Result result = compare_strategies(options, {});
  EXPECT_EQ(result.rows[0].impossible, "");
  EXPECT_TRUE(says(result.rows[1].impossible, "training.clip_norm"));
  EXPECT_TRUE(says(result.rows[2].impossible, "stage")) << result.rows[2].impossible;
  EXPECT_TRUE(says(result.remarks.at(0), "Only single"));
}

TEST(Compare, KeepsMeasurementsWhenStopped) {
  const TempFolder folder;
  CompareOptions options{test::telar_program(), small_job(folder), {}, {"single", "mirrored", "pipeline"}};
  options.folder = folder / "runs";
  bool stop = false;
  SweepWatch watch;
  watch.stop_requested = [&] { return stop; };
  watch.ended = [&](const std::string&) { stop = true; };
  const Result result = compare_strategies(options, watch);
  EXPECT_TRUE(figure(result.rows[0], "accuracy").value);
  EXPECT_TRUE(says(result.rows[1].impossible, "stopped before"));
  EXPECT_FALSE(std::filesystem::exists(folder / "runs" / "mirrored-2"));
}

TEST(Compare, ReportsMistakesBeforeAnythingRuns) {
  const TempFolder folder;
  CompareOptions options{test::telar_program(), small_job(folder)};
  options.folder = folder / "runs";
  options.strategies = {"miror"};
  expect_error([&] { compare_strategies(options, {}); }, {"'miror'", "mirrored"});
  options.strategies = {"mirrored:many"};
  expect_error([&] { compare_strategies(options, {}); }, {"mirrored:many"});
  options.strategies = {};
  options.settings = {"training.batsh=3"};
  expect_error([&] { compare_strategies(options, {}); }, {"training.batsh"});
}

TEST(Scaling, ReportsTimeAndComputeTimeToTheTarget) {
  const TempFolder folder;
  ScalingOptions options{test::telar_program(), small_job(folder), {"training.epochs=30"}};
  options.workers = {1, 2};
  options.servers = {1, 2};
  options.batches = {10};
  options.target = 0.7;
  options.folder = folder / "runs";
  const Result result = measure_scaling(options, {});
  ASSERT_EQ(result.rows.size(), 4U);
  int sweet = 0;
  for (const ResultRow& row : result.rows) {
    ASSERT_EQ(row.impossible, "");
    const double time = figure(row, "to 0.7").value.value_or(0);
    EXPECT_GT(time, 0);
    EXPECT_DOUBLE_EQ(*figure(row, "compute time").value, std::stoi(row.setting[0]) * time);
    EXPECT_GE(*figure(row, "best accuracy").value, 0.7);
    EXPECT_LT(*figure(row, "epochs").value, 30) << "a training ends when the target is reached";
    sweet += find_figure(row, "sweet spot") != nullptr ? 1 : 0;
  }
  EXPECT_EQ(sweet, 1);
  // 16·8 + 8 + 8·2 + 2 numbers; the fuller of the two servers has the large matrix.
  EXPECT_DOUBLE_EQ(*figure(result.rows[0], "on a server").value, 1e-6 * 4 * 154);
  EXPECT_DOUBLE_EQ(*figure(result.rows[2], "on a server").value, 1e-6 * 4 * 128);
  EXPECT_TRUE(says(result.remarks.at(0), "The sweet spot is "));
  ASSERT_EQ(result.charts.size(), 3U);
  EXPECT_EQ(result.charts[0].curves.at(0).points.size(), 2U) << "one for each number of workers";
}

TEST(Scaling, ReportsATargetThatIsNotReached) {
  const TempFolder folder;
  ScalingOptions options{
      test::telar_program(), small_job(folder), {"training.epochs=2", "optimizer.learning_rate=1e-9"}};
  options.workers = {1};
  options.servers = {1};
  options.batches = {50};
  options.target = 0.99;
  options.mixing = {"shuffled", "by_label"};
  options.folder = folder / "runs";
  const Result result = measure_scaling(options, {});
  EXPECT_FALSE(figure(result.rows[0], "to 0.99").value);
  EXPECT_TRUE(says(result.remarks.at(0), "no sweet spot"));
  EXPECT_TRUE(says(result.remarks.at(1), "Not reached in 2 epochs"));
  EXPECT_TRUE(says(result.remarks.at(1), "batches of 50, by label"));
  options.strategy = "mirrored";
  expect_error([&] { measure_scaling(options, {}); }, {"mirrored", "downpour"});
}

}  // namespace
}  // namespace telar::bench
