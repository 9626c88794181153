#include "telar/bench/training_run.h"

#include <gtest/gtest.h>

#include <map>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "support/sentences.h"
#include "telar/observe/metrics_log.h"

namespace telar::bench {
namespace {

using test::says;
using test::sentence_of;
using test::TempFolder;
using test::write_text;

/// A training that takes moments.
TrainingStart small_training(const TempFolder& folder, std::vector<std::string> settings = {}) {
  write_text(folder / "job.yaml",
             "model: {name: mlp, options: {hidden: [8]}}\n"
             "data: {source: synthetic, samples: 100, shape: [1, 4, 4], classes: 2}\n"
             "training: {epochs: 3, batch: 16}\n"
             "output: {tensorboard: false}\n");
  settings.emplace_back("strategy.threads=1");
  return {test::telar_program(), folder / "job.yaml", std::move(settings), folder / "runs" / "one"};
}

TEST(TrainingRun, HasCurvesAndFigures) {
  const TempFolder folder;
  const TrainingRun run = run_training(small_training(folder), {});
  ASSERT_EQ(run.failure, "");
  EXPECT_EQ(run.end, TrainingRun::End::finished);
  ASSERT_EQ(run.curve.steps.size(), 18U);  // 90 samples: 6 steps per epoch
  ASSERT_EQ(run.curve.epochs.size(), 3U);
  EXPECT_EQ(run.curve.steps[0].samples, 16);
  EXPECT_EQ(run.curve.steps[5].samples, 90);
  EXPECT_EQ(run.curve.epochs[2].samples, 270);
  EXPECT_EQ(run.curve.epochs[2].epoch, 3);
  EXPECT_TRUE(run.curve.epochs[2].accuracy);
  EXPECT_GT(run.curve.steps[1].seconds, run.curve.steps[0].seconds);
  EXPECT_EQ(run.curve.epochs[0].seconds, run.curve.steps[5].seconds)
      << "validation does not count as training time";
  EXPECT_EQ(run.figure("steps"), 18);
  EXPECT_TRUE(run.figure("test_accuracy"));
  EXPECT_FALSE(run.figure("no such figure"));
}

TEST(TrainingRun, ReportsTheErrorOfAFailedTraining) {
  const TempFolder folder;
  TrainingStart start = small_training(folder, {"training.batch=none"});
  const TrainingRun mistaken = run_training(start, {});
  EXPECT_EQ(mistaken.end, TrainingRun::End::failed);
  EXPECT_TRUE(says(mistaken.failure, "training.batch")) << mistaken.failure;
  EXPECT_TRUE(mistaken.curve.steps.empty());
  start.program = (folder / "no-such-program").string();
  EXPECT_TRUE(says(run_training(start, {}).failure, "cannot be started"));
}

TEST(TrainingRun, EndsWhenTheTargetIsReached) {
  const TempFolder folder;
  TrainingWatch watch;
  watch.enough = [](const CurvePoint& epoch) { return epoch.epoch >= 2; };
  const TrainingRun run = run_training(small_training(folder, {"training.epochs=1000000"}), watch);
  ASSERT_EQ(run.failure, "");
  EXPECT_EQ(run.end, TrainingRun::End::enough);
  EXPECT_GE(run.curve.epochs.size(), 2U);
  EXPECT_TRUE(run.figure("images_per_second")) << "measurements are kept";
  EXPECT_TRUE(std::filesystem::exists(folder / "runs" / "one" / "checkpoints"));
}

TEST(TrainingRun, WritesACheckpointWhenItsExperimentIsStopped) {
  const TempFolder folder;
  bool stop = false;
  TrainingWatch watch;
  watch.progress = [&](const CurvePoint& newest) {
    EXPECT_GT(newest.samples, 0);
    stop = true;
  };
  watch.stop_requested = [&] { return stop; };
  const TrainingRun run = run_training(small_training(folder, {"training.epochs=1000000"}), watch);
  EXPECT_EQ(run.end, TrainingRun::End::stopped);
  EXPECT_EQ(run.failure, "");
  EXPECT_FALSE(run.curve.steps.empty());
}

TEST(OverMpi, RunsAndStopsATrainingInSeveralProcesses) {
  if (std::system("mpirun --version >/dev/null 2>&1") != 0)  // NOLINT(concurrency-mt-unsafe): one thread
    GTEST_SKIP() << "NOT TESTED: mpirun is missing";
  const TempFolder folder;
  const std::vector<std::string> mirrored = {"strategy={name: mirrored, replicas: 1, threads: 1}"};
  TrainingStart start = small_training(folder, mirrored);
  start.settings.pop_back();
  start.processes = 2;
  const TrainingRun run = run_training(start, {});
  ASSERT_EQ(run.failure, "");
  EXPECT_EQ(run.curve.epochs.size(), 3U);
  start.folder = folder / "runs" / "two";
  start.settings.emplace_back("training.epochs=1000000");
  TrainingWatch watch;
  watch.enough = [](const CurvePoint& epoch) { return epoch.epoch >= 2; };
  const TrainingRun stopped = run_training(start, watch);
  EXPECT_EQ(stopped.failure, "");
  EXPECT_EQ(stopped.end, TrainingRun::End::enough);
  EXPECT_TRUE(stopped.figure("images_per_second")) << "mpirun gives it time to write its summary";
  start.folder = folder / "runs" / "three";
  start.settings.emplace_back("training.batch=none");
  EXPECT_TRUE(says(run_training(start, {}).failure, "training.batch"));
}

TEST(Curve, RejectsAForeignLogWithTheLineNumber) {
  const TempFolder folder;
  const std::string good = R"({"kind":"step","step":1,"epoch":1,"samples":4,"seconds":0.5,"loss":2.0})"
                           "\n";
  write_text(folder / "metrics.jsonl", good +
                                           R"({"kind":"step","step":2})"
                                           "\n" +
                                           good);
  EXPECT_TRUE(says(sentence_of([&] { read_curve(folder.path()); }), "metrics.jsonl, line 2"));
  write_text(folder / "metrics.jsonl", good + R"({"kind":"st)");
  EXPECT_EQ(read_curve(folder.path()).steps.size(), 1U) << "a killed run leaves half a line";
}

TEST(Curve, OfAStreamHasTheMeansOfTheWindowBySamplesAndByTime) {
  const TempFolder folder;
  write_text(
      folder / "metrics.jsonl",
      R"({"kind":"step","step":1,"epoch":1,"samples":32,"seconds":0.5,"loss":3,"window_loss":2.5,"window_accuracy":0.25})"
      "\n"
      R"({"kind":"drift","step":2,"epoch":1,"samples":64,"seconds":1,"value":0.9,"window":0.2,"rate_factor":1})"
      "\n"
      R"({"kind":"step","step":2,"epoch":1,"samples":64,"seconds":1,"loss":1,"window_loss":2,"window_accuracy":0.5})"
      "\n");
  std::map<std::string, std::vector<std::pair<double, double>>> points;
  for (const Chart& chart : learning_charts({{"run", read_curve(folder.path())}}))
    points[chart.title] = chart.curves.at(0).points;
  using Points = std::vector<std::pair<double, double>>;
  EXPECT_EQ(points.at("Loss of new samples (window) against samples"), (Points{{32, 2.5}, {64, 2}}));
  EXPECT_EQ(points.at("Loss of new samples (window) against time"), (Points{{0.5, 2.5}, {1, 2}}));
  EXPECT_EQ(points.at("Accuracy of new samples (window) against samples"), (Points{{32, 0.25}, {64, 0.5}}));
  EXPECT_EQ(points.at("Training loss against samples"), (Points{{32, 3}, {64, 1}}));
}

TEST(Curve, OfALongRunKeepsItsPeaks) {
  TrainingCurve curve;
  for (int step = 0; step < 5000; ++step)
    curve.steps.push_back(
        {1, static_cast<double>(step), 0.1 * step, step == 3333 ? 15.3 : 1.0 + step % 7, {}});
  const auto points = learning_charts({{"run", curve}}).at(0).curves.at(0).points;
  EXPECT_LE(points.size(), 400U);
  EXPECT_EQ(std::ranges::count(points, std::pair(3333.0, 15.3)), 1) << "not a mean of its neighbours";
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, &std::pair<double, double>::first));
}

TEST(Curve, ValidationAndTrainingAccuracyAreDifferentCharts) {
  TrainingCurve validated;
  validated.epochs.push_back({1, 100, 1, 0.5, 0.9, {}, {}, true});
  TrainingCurve trained;
  trained.epochs.push_back({1, 100, 1, 0.5, 0.99});
  std::map<std::string, std::string> curves;
  for (const Chart& chart : learning_charts({{"validated", validated}, {"trained", trained}})) {
    ASSERT_EQ(chart.curves.size(), 1U) << chart.title;
    curves[chart.title] = chart.curves[0].name;
  }
  EXPECT_EQ(curves.at("Validation accuracy after each epoch against samples"), "validated");
  EXPECT_EQ(curves.at("Training accuracy of each epoch against samples"), "trained");
}

TEST(Curve, CanBeReadWhileTheLogGrows) {
  const TempFolder folder;
  CurveWatch watch(folder.path());
  EXPECT_FALSE(watch.look().step) << "no log yet";
  MetricsLog log(folder / "metrics.jsonl");
  const auto append = [&](const char* kind, int64_t samples) {
    log.append(
        {{"kind", kind}, {"step", samples}, {"epoch", int64_t{1}}, {"samples", samples}, {"seconds", 1.0}});
  };
  append("step", 1);
  append("step", 2);
  append("epoch", 2);
  append("step", 3);
  const CurveWatch::News news = watch.look();
  EXPECT_EQ(news.step->samples, 3) << "the newest";
  ASSERT_EQ(news.epochs.size(), 1U);
  EXPECT_EQ(news.epochs[0].samples, 2);
  EXPECT_FALSE(watch.look().step) << "nothing new";
}

}  // namespace
}  // namespace telar::bench
