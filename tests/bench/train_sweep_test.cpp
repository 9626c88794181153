#include "telar/bench/train_sweep.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "io/temp_folder.h"
#include "support/paths.h"
#include "support/sentences.h"
#include "telar/bench/environments.h"
#include "telar/bench/limits.h"
#include "telar/observe/process.h"
#include "telar/train/job_reader.h"

namespace telar::bench {
namespace {

using test::says;
using test::sentence_of;

double figure_value(const ResultRow& row, const std::string& name) {
  const Figure* found = find_figure(row, name);
  EXPECT_NE(found, nullptr) << name;
  return found == nullptr ? 0 : found->value.value_or(-1);
}

TEST(Environments, AreSettingsOfAJob) {
  const TrainingEnvironment one = environment_of("cpu:1");
  EXPECT_EQ(one.settings, (std::vector<std::string>{"strategy.name=single", "strategy.threads=1"}));
  EXPECT_EQ(one.threads, 1);
  EXPECT_EQ(one.impossible, "");
  EXPECT_EQ(environment_of("cpu:all").threads, available_threads());
  const TrainingEnvironment replica = environment_of("replicas:1");
  EXPECT_EQ(replica.settings[0], "strategy.name=mirrored");
  EXPECT_EQ(replica.processes, 1);
  EXPECT_EQ(environment_of("mpi:1").settings[1], "strategy.replicas=1");
}

TEST(Environments, ReportWhyTheyAreImpossible) {
  EXPECT_TRUE(says(environment_of("gpu").impossible, "CPU devices only"));
  EXPECT_TRUE(says(environment_of("gpu+cpu").impossible, "CPU devices only"));
  for (const char* name : {"cpu:4096", "replicas:4096", "mpi:4096", "pipeline:4096"})
    EXPECT_TRUE(says(environment_of(name).impossible, "this process may use")) << name;
}

TEST(Environments, WithoutMpirunThereIsNoMpi) {
  const std::string path = ::getenv("PATH");
  const test::TempFolder empty;
  ::setenv("PATH", empty.path().c_str(), 1);
  const std::string impossible = environment_of("mpi:1").impossible;
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_TRUE(says(impossible, "MPI") || says(impossible, "mpirun"));
}

TEST(Environments, RejectUnknownNames) {
  for (const char* name : {"cpu", "cpu:0", "cpu:x", "cpu:2x", "replicas", "mpi:-1", "tpu:1", "replicas:all"})
    EXPECT_TRUE(says(sentence_of([&] { environment_of(name); }), "there is no environment")) << name;
}

/// A run with one step of 10 samples for each of these durations.
TrainingRun run_of(const std::vector<double>& milliseconds) {
  TrainingRun run;
  CurvePoint point;
  for (const double step : milliseconds) {
    point.samples += 10;
    point.seconds += step / 1e3;
    point.accuracy = 0.5;
    run.curve.steps.push_back(point);
  }
  return run;
}

TEST(TrainingRow, LeavesOutTheFirstThreeSteps) {
  TrainingRun run = run_of({900, 500, 500, 40, 50, 60});
  run.figures = {{"test_accuracy", 0.75}, {"peak_memory_bytes", 3e6}, {"phases/mean_ms/exchange", 4}};
  const ResultRow row = training_row({"f32", "cpu:1"}, run, 10);
  EXPECT_NEAR(row.measured->times.median(), 50, 1e-9);
  EXPECT_NEAR(row.measured->times.max(), 60, 1e-9);
  EXPECT_NEAR(figure_value(row, "images/s"), 200, 1e-6);
  EXPECT_EQ(figure_value(row, "accuracy"), 0.75);
  EXPECT_EQ(figure_value(row, "peak memory"), 3);
  EXPECT_EQ(figure_value(row, "exposed"), 4);
  EXPECT_FALSE(find_figure(row, "energy")->value) << "a figure that was not measured has no value";
}

TEST(TrainingRow, EnergyIsDividedByTheTrainedImages) {
  TrainingRun run = run_of({40, 40, 40, 40, 40});
  run.figures = {{"joules", 100}};
  EXPECT_NEAR(figure_value(training_row({"f32", "cpu:1"}, run, 10), "energy/image"), 2, 1e-9);
}

TEST(TrainingRow, ReportsTooFewSteps) {
  const ResultRow row = training_row({"f32", "cpu:1"}, run_of({1, 1, 1}), 10);
  EXPECT_FALSE(row.measured);
  EXPECT_TRUE(says(row.impossible, "at least 4"));
}

TEST(TrainingRows, AreComparedWithTheFirstMeasuredRow) {
  std::vector<ResultRow> rows = {{{"f32", "gpu"}, std::nullopt, "none", {}},
                                 training_row({"f32", "cpu:1"}, run_of({9, 9, 9, 80}), 10),
                                 training_row({"f32", "cpu:4"}, run_of({9, 9, 9, 40}), 10),
                                 training_row({"bf16", "cpu:1"}, run_of({9, 9, 9, 20}), 10),
                                 training_row({"bf16", "cpu:4"}, run_of({9, 9, 9, 10}), 10)};
  compare_rows(rows, {1, 1, 4, 1, 4});
  EXPECT_NEAR(figure_value(rows[1], "speed-up"), 1, 1e-9);
  EXPECT_NEAR(figure_value(rows[2], "speed-up"), 2, 1e-9);
  EXPECT_NEAR(figure_value(rows[2], "efficiency"), 0.5, 1e-9);
  EXPECT_NEAR(figure_value(rows[3], "speed-up"), 4, 1e-9) << "relative to the first row";
  EXPECT_NEAR(figure_value(rows[3], "efficiency"), 1, 1e-9) << "relative to the first row in bf16";
  EXPECT_NEAR(figure_value(rows[4], "efficiency"), 0.5, 1e-9);
  EXPECT_TRUE(rows[0].figures.empty());
}

/// Stores the limits of an impossibly fast machine, so that they need not be measured.
class TrainSweep : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1);
    keep_limits({1, 1e15, 1e15, 1e15, 0, 0, 0, 0});
  }
  void TearDown() override { ::unsetenv("XDG_CACHE_HOME"); }

  TrainSweepOptions options(std::vector<std::string> environments) const {
    TrainSweepOptions options;
    options.program = test::telar_program();
    options.model = "mlp";
    options.data = "synthetic";
    options.batch = 8;
    options.steps = 6;
    options.environments = std::move(environments);
    options.settings = {"model.options.hidden=[8]", "data.shape=[1, 4, 4]", "data.classes=3",
                        "data.test_samples=20"};
    options.folder = folder_ / "runs";
    return options;
  }
  test::TempFolder folder_;
};

TEST_F(TrainSweep, PhasesOfARowAddUpToItsSteps) {
  const Result result = measure_training(options({"cpu:1"}));
  ASSERT_EQ(result.rows.size(), 1U);
  const ResultRow& row = result.rows[0];
  ASSERT_TRUE(row.measured) << row.impossible;
  EXPECT_EQ(row.measured->times.milliseconds.size(), 3U);
  // The forward pass and the weight gradients of both layers, and the input gradient of the second.
  EXPECT_EQ(row.measured->operations, 2.0 * 8 * (2 * 16 * 8 + 3 * 8 * 3));
  EXPECT_GT(row.measured->limit_ms, 0);
  double phases = 0;
  for (const char* phase : {"load", "copy", "forward", "backward", "exposed", "wait", "update", "other"})
    phases += figure_value(row, phase);
  const auto& times = row.measured->times.milliseconds;
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / 3;
  EXPECT_LE(phases, mean * 1.0001)
      << "the time that the training waits for its steps includes more than their phases";
  EXPECT_GT(figure_value(row, "forward"), 0);
  EXPECT_GT(figure_value(row, "peak memory"), 1);
  EXPECT_GE(figure_value(row, "accuracy"), 0);
  EXPECT_EQ(result.drawn, "images/s");
  ASSERT_FALSE(result.charts.empty());
  EXPECT_EQ(result.charts[0].curves[0].name, "f32 cpu:1");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "runs" / "f32-cpu:1" / "trace.json"));
}

TEST_F(TrainSweep, AnImpossibleEnvironmentDoesNotStopTheOthers) {
  const Result result = measure_training(options({"gpu", "cpu:1", "replicas:4096", "gpu+cpu"}));
  ASSERT_EQ(result.rows.size(), 4U);
  EXPECT_TRUE(says(result.rows[0].impossible, "CPU devices only"));
  EXPECT_TRUE(result.rows[1].measured);
  EXPECT_TRUE(says(result.rows[2].impossible, "may use"));
  EXPECT_EQ(figure_value(result.rows[1], "speed-up"), 1);
}

TEST_F(TrainSweep, AFailedTrainingIsARowWithTheReason) {
  TrainSweepOptions failing = options({"cpu:1"});
  failing.settings.emplace_back("optimizer.learning_rate=1e6");
  failing.settings.emplace_back("loss=mean_squared_error");
  failing.settings.emplace_back("data.classes=0");
  const Result result = measure_training(failing);
  ASSERT_EQ(result.rows.size(), 1U);
  EXPECT_TRUE(says(result.rows[0].impossible, "not finite")) << result.rows[0].impossible;
}

TEST_F(TrainSweep, KeepsCompleteRowsWhenStopped) {
  TrainSweepOptions stopping = options({"cpu:1", "replicas:1", "cpu:1"});
  int rows = 0;
  stopping.say = [&](const std::string& text) { rows += text.starts_with("measuring") ? 1 : 0; };
  stopping.stop_requested = [&] { return rows > 1; };
  const Result result = measure_training(stopping);
  EXPECT_EQ(result.rows.size(), 1U);
  EXPECT_TRUE(says(result.remarks[0], "was stopped"));
}

TEST_F(TrainSweep, RejectsAnInvalidJobBeforeTraining) {
  TrainSweepOptions wrong = options({"cpu:1"});
  wrong.model = "resnet35";
  EXPECT_TRUE(says(sentence_of([&] { measure_training(wrong); }), "resnet34"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  EXPECT_TRUE(says(sentence_of([&] { measure_training(options({"cpu:1", "tpu"})); }), "tpu"));
}

TEST_F(TrainSweep, RunsTheGivenNumberOfStepsOnAnyData) {
  TrainSweepOptions mnist = options({});
  mnist.data = "fashion-mnist";
  mnist.settings = {};
  const Job job = parse_job(sweep_job_text(mnist), "the job");
  EXPECT_EQ(job.data.limit, 48);
  EXPECT_EQ(job.data.validation, 0);
  EXPECT_EQ(job.training.epochs, 1);
  mnist.steps = 0;
  mnist.epochs = 2;
  EXPECT_EQ(parse_job(sweep_job_text(mnist), "the job").data.limit, 0);
}

}  // namespace
}  // namespace telar::bench
