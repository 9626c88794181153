#include "telar/train/run.h"
#include "support/sentences.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "telar/core/error.h"
#include "telar/train/checkpoint.h"
#include "telar/train/job_reader.h"
#include "telar/train/pipeline.h"
#include "telar/train/trained.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

namespace fs = std::filesystem;

const std::string kMlp =
    "model: {name: mlp, options: {hidden: [16], dropout: 0.2}}\n"
    "data: {source: synthetic, samples: 210, test_samples: 50, shape: [1, 6, 6], classes: 3}\n"
    "training: {epochs: 3, batch: 32}\n";
const std::string kConvolution =
    "model:\n"
    "  layers:\n"
    "    - {type: conv2d, channels: 4, kernel: 3, padding: 1}\n"
    "    - {type: batch_norm}\n"
    "    - {type: relu}\n"
    "    - {type: flatten}\n"
    "    - {type: linear, features: 3}\n"
    "data: {source: synthetic, samples: 150, test_samples: 20, shape: [1, 8, 8], classes: 3, augment: {padding: 1, flip: true}}\n"
    "optimizer: {name: sgd, momentum: 0.9, learning_rate: 0.05}\n"
    "schedule: {name: cosine, warmup_epochs: 0.5}\n"
    "training: {epochs: 3, batch: 20, clip_norm: 1}\n";

Job job_in(const std::string& text, const fs::path& folder, std::vector<std::string> overrides = {}) {
  overrides.push_back("output.folder=" + folder.string());
  return parse_job(text, "job.yaml", overrides);
}

/// Options that stop a run after this number of steps.
RunOptions stopping_after(int steps, bool resume) {
  RunOptions options;
  options.resume = resume;
  auto left = std::make_shared<int>(steps);
  options.stop_requested = [left] { return --*left <= 0; };
  return options;
}

struct Weights {
  std::string model;
  std::string optimizer;
  std::string workers = {};
  bool operator==(const Weights&) const = default;
};

Weights weights_in(const std::string& checkpoint) {
  return {test::read_text(fs::path(checkpoint) / "model.safetensors"),
          test::read_text(fs::path(checkpoint) / "optimizer.safetensors"),
          test::read_text(fs::path(checkpoint) / "workers.safetensors")};
}

/// The step, epoch and loss of every line of a log, in order.
std::vector<std::string> lines_of(const fs::path& log) {
  std::vector<std::string> lines;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    lines.push_back(json.at("kind").get<std::string>() + json.at("step").dump() + "/" +
                    json.at("epoch").dump() + " " +
                    json.value("loss", json.value("train_loss", nlohmann::json())).dump());
  }
  return lines;
}

class Resume : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

/// A run is stopped within epochs and at their ends, and resumed each time. Weights, optimizer state and log
/// equal those of a run that was not stopped.
TEST_P(Resume, HasTheBitsOfARunThatWasNotStopped) {
  const auto& [text, strategy, every] = GetParam();
  const test::TempFolder folder;
  const std::vector<std::string> overrides = {"strategy=" + strategy};
  const RunSummary whole = run_job(job_in(text, folder / "whole", overrides), {});
  ASSERT_EQ(whole.outcome, FitOutcome::finished);

  RunSummary part;
  int processes = 0;
  do {
    part = run_job(job_in(text, folder / "parts", overrides), stopping_after(every, processes > 0));
    ASSERT_LT(++processes, 40);
  } while (part.outcome == FitOutcome::stopped);
  EXPECT_GT(processes, 2);
  EXPECT_EQ(weights_in(part.checkpoint), weights_in(whole.checkpoint));
  EXPECT_EQ(part.test, whole.test);
  EXPECT_EQ(part.steps, whole.steps);
  EXPECT_EQ(lines_of(folder / "parts" / "metrics.jsonl"), lines_of(folder / "whole" / "metrics.jsonl"));
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, Resume,
    testing::Values(std::tuple(kMlp, "single", 3), std::tuple(kMlp, "{name: mirrored, threads: 1}", 4),
                    std::tuple(kConvolution, "{name: mirrored, replicas: 3, threads: 1}", 5),
                    std::tuple(kConvolution, "{name: mirrored, threads: 1, batch_norm: synchronised}", 7),
                    std::tuple(kConvolution,
                               "{name: local_sgd, threads: 1, average_every: 4, warmup_steps: 3}", 3)));

TEST(Run, TwiceGivesTheSameBits) {
  const test::TempFolder folder;
  const std::vector<std::string> mirrored = {"strategy={name: mirrored, threads: 1}"};
  const RunSummary a = run_job(job_in(kConvolution, folder / "a", mirrored), {});
  const RunSummary b = run_job(job_in(kConvolution, folder / "b", mirrored), {});
  EXPECT_EQ(weights_in(a.checkpoint), weights_in(b.checkpoint));
  const RunSummary other = run_job(job_in(kConvolution, folder / "c", {"training.seed=2"}), {});
  EXPECT_NE(weights_in(a.checkpoint).model, weights_in(other.checkpoint).model);
}

TEST(Run, LearnsAndALaterEvaluationEqualsTheFinalOne) {
  const test::TempFolder folder;
  const RunSummary summary = run_job(job_in(kMlp, folder / "run", {"training.epochs=8"}), {});
  ASSERT_EQ(summary.test.size(), 2U);
  EXPECT_GT(summary.test[1], 0.9);
  const Trained trained = load_trained(folder / "run", false);
  EXPECT_EQ(evaluate(trained, *open_test_dataset(trained.job.data, 1)), summary.test);
  const auto json = nlohmann::json::parse(test::read_text(folder / "run" / "summary.json"));
  EXPECT_EQ(json.at("test_accuracy").get<double>(), summary.test[1]);
  for (const char* key :
       {"train_loss", "images_per_second", "step_ms_median", "seconds", "epochs", "strategy", "replicas",
        "peak_memory_bytes", "parameter_bytes", "gradient_bytes", "optimizer_bytes", "seed"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_TRUE(fs::exists(folder / "run" / "job.yaml"));
}

TEST(Run, LeavesANonEmptyFolderUnchanged) {
  const test::TempFolder folder;
  run_job(job_in(kMlp, folder / "run"), {});
  const std::string log = test::read_text(folder / "run" / "metrics.jsonl");
  EXPECT_TRUE(
      says(sentence_of([&] { run_job(job_in(kMlp, folder / "run"), {}); }), "already contains a run"));
  EXPECT_EQ(test::read_text(folder / "run" / "metrics.jsonl"), log);
  test::write_text(folder / "mine" / "thesis.txt", "years of work");
  EXPECT_TRUE(says(sentence_of([&] { run_job(job_in(kMlp, folder / "mine"), {}); }), "is not empty"));
  RunOptions resume;
  resume.resume = true;
  EXPECT_TRUE(says(sentence_of([&] { run_job(job_in(kMlp, folder / "mine"), resume); }), "is not empty"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "mine"), {}), 1);
}

TEST(Run, IsNotResumedWithAnotherJob) {
  const test::TempFolder folder;
  run_job(job_in(kMlp, folder / "run"), stopping_after(2, false));
  RunOptions resume;
  resume.resume = true;
  const Job other = job_in(kMlp, folder / "run", {"optimizer=sgd"});
  EXPECT_TRUE(
      says(sentence_of([&] { run_job(other, resume); }),
           "optimizer.name: adam → sgd, which cannot change, because the checkpoint contains the state"));
  const Job model = job_in(kMlp, folder / "run", {"model.options.hidden=[8]"});
  EXPECT_TRUE(says(sentence_of([&] { run_job(model, resume); }), "the models differ"));
  const Job longer = job_in(kMlp, folder / "run", {"training.epochs=4", "data.threads=0", "output.keep=1"});
  EXPECT_EQ(run_job(longer, resume).epochs, 4);
}

TEST(Run, ResumesFromTheCheckpointBeforeADamagedOne) {
  const test::TempFolder folder;
  const RunSummary whole = run_job(job_in(kMlp, folder / "whole"), {});
  run_job(job_in(kMlp, folder / "run", {"output.checkpoint_steps=2"}), stopping_after(5, false));
  const fs::path newest = list_checkpoints(folder / "run" / "checkpoints").front();
  fs::resize_file(newest / "model.safetensors", 100);
  RunOptions resume;
  resume.resume = true;
  std::string warned;
  resume.warn = [&](const std::string& text) { warned += text; };
  const RunSummary resumed = run_job(job_in(kMlp, folder / "run"), resume);
  EXPECT_TRUE(says(warned, newest.filename().string()));
  EXPECT_EQ(weights_in(resumed.checkpoint), weights_in(whole.checkpoint));
}

TEST(Run, StopsEarlyAndKeepsTheBestCheckpoint) {
  const test::TempFolder folder;
  // At this rate the validation loss soon rises again.
  const RunSummary summary = run_job(job_in(kMlp, folder / "run",
                                            {"training.epochs=200", "training.early_stopping.patience=3",
                                             "optimizer.learning_rate=0.05", "output.keep=1"}),
                                     {});
  EXPECT_TRUE(summary.stopped_early);
  EXPECT_LT(summary.epochs, 200);
  const TrainingState state = verify_checkpoint(summary.checkpoint);
  EXPECT_EQ(state.epochs_since_best, 3);
  EXPECT_TRUE(fs::exists(checkpoint_path(folder / "run" / "checkpoints", state.best_step)));
  EXPECT_EQ(load_trained(folder / "run", true).checkpoint,
            checkpoint_path(folder / "run" / "checkpoints", state.best_step));
}

TEST(Run, ANonFiniteLossNamesStepAndLayer) {
  const test::TempFolder folder;
  const Job job =
      job_in(kMlp, folder / "run", {"optimizer={name: sgd, learning_rate: 1e6}", "training.epochs=20"});
  const std::string sentence = sentence_of([&] { run_job(job, {}); }, Error::Kind::run);
  EXPECT_TRUE(says(sentence, "the loss is not finite at step "));
  EXPECT_TRUE(says(sentence, "learning rate"));
  EXPECT_TRUE(says(sentence, "fc") || says(sentence, "loss"));
}

TEST(Run, RefusesALossThatDoesNotFitTheLabels) {
  const test::TempFolder folder;
  EXPECT_TRUE(
      says(sentence_of([&] { run_job(job_in(kMlp, folder / "run", {"loss=mean_squared_error"}), {}); }),
           "3 classes"));
  EXPECT_TRUE(says(sentence_of([&] {
                     run_job(job_in(kMlp, folder / "run", {"data.classes=0", "loss=cross_entropy"}), {});
                   }),
                   "the labels are numbers"));
  EXPECT_FALSE(fs::exists(folder / "run"));
  const RunSummary regression =
      run_job(job_in(kMlp, folder / "run", {"data.classes=0", "training.epochs=1"}), {});
  EXPECT_EQ(regression.figures->numbers(), std::vector<std::string>{"loss"});
}

}  // namespace
}  // namespace telar
