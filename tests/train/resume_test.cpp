#include "telar/train/resume.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "io/temp_folder.h"
#include "support/picture_folder.h"
#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/core/memory_limit.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"

namespace telar {
namespace {

using test::expect_error;
using test::says;
using test::sentence_of;

namespace fs = std::filesystem;

/// 189 training samples: 6 steps of an epoch.
const std::string kMlpJob =
    "model: {name: mlp, options: {hidden: [8]}}\n"
    "data: {source: synthetic, samples: 210, test_samples: 20, shape: [1, 4, 4], classes: 3}\n"
    "optimizer: {name: sgd, learning_rate: 0.01}\n"
    "training: {epochs: 2, batch: 32}\n";
constexpr int64_t kTrained = 189;

class ResumeWith : public testing::Test {
 protected:
  RunSummary run(std::vector<std::string> overrides, RunOptions options = {}) {
    overrides.push_back("output.folder=" + path().string());
    options.say = [this](const std::string& text) { said_ += text + "\n"; };
    options.warn = [this](const std::string& text) { warned_ += text + "\n"; };
    return run_job(parse_job(kMlpJob, "job.yaml", overrides), options);
  }

  RunSummary resume(const std::vector<std::string>& overrides) { return run(overrides, {.resume = true}); }

  /// Stops within the first epoch.
  void stop_after(int steps, const std::vector<std::string>& overrides = {}, bool resumed = false) {
    RunOptions options;
    options.resume = resumed;
    auto left = std::make_shared<int>(steps);
    options.stop_requested = [left] { return --*left <= 0; };
    ASSERT_EQ(run(overrides, options).outcome, FitOutcome::stopped);
  }

  fs::path path() const { return folder_ / "run"; }

  /// The lines of the log of this kind.
  std::vector<nlohmann::json> lines(const std::string& kind) const {
    std::vector<nlohmann::json> found;
    std::ifstream file(path() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      nlohmann::json json = nlohmann::json::parse(line);
      if (json.at("kind") == kind) found.push_back(std::move(json));
    }
    return found;
  }

  double rate_of_step(size_t step) const {
    return lines("step").at(step - 1).at("learning_rate").get<double>();
  }

  test::TempFolder folder_;
  std::string said_;
  std::string warned_;
};

TEST_F(ResumeWith, AnotherRateAndBatchAreAllowedPrintedAndLogged) {
  run({});
  const RunSummary summary =
      resume({"training.epochs=4", "training.batch=63", "optimizer.learning_rate=0.5", "output.keep=1"});
  EXPECT_EQ(summary.steps, 2 * 6 + 2 * 3);
  EXPECT_TRUE(says(said_, "changed: training.batch: 32 → 63"));
  EXPECT_TRUE(says(said_, "changed: optimizer.learning_rate: 0.01 → 0.5"));
  ASSERT_EQ(lines("resume").size(), 1U);
  EXPECT_TRUE(says(lines("resume")[0].at("changes").get<std::string>(), "training.epochs: 2 → 4"));
  EXPECT_FLOAT_EQ(static_cast<float>(rate_of_step(12)), 0.01F);
  EXPECT_FLOAT_EQ(static_cast<float>(rate_of_step(13)), 0.5F);
  EXPECT_TRUE(says(test::read_text(path() / "job.yaml"), "batch: 63"));
}

TEST_F(ResumeWith, TheScheduleFollowsTheEpochsNotTheSteps) {
  const std::string schedule = "schedule={name: step, milestones: [3]}";
  run({schedule});
  resume({schedule, "training.epochs=4", "training.batch=63"});
  EXPECT_FLOAT_EQ(static_cast<float>(rate_of_step(15)), 0.01F) << "the last step of epoch 3";
  EXPECT_FLOAT_EQ(static_cast<float>(rate_of_step(16)), 0.001F) << "the first step of epoch 4";
}

TEST_F(ResumeWith, WithinAnEpochASmallerBatchContinuesAtTheSameSample) {
  stop_after(2);
  const RunSummary summary = resume({"training.batch=16"});
  EXPECT_EQ(warned_, "");
  EXPECT_TRUE(says(said_, "after step 2 (epoch 1, step 4 of it)"));
  EXPECT_EQ(verify_checkpoint(summary.checkpoint).samples, 2 * kTrained);
  EXPECT_EQ(summary.steps, 2 + 8 + 12);
}

TEST_F(ResumeWith, AfterAChangeOfTheBatchTheEpochMayBeStoppedAgain) {
  stop_after(2);
  stop_after(1, {"training.batch=16"}, true);  // more steps into the epoch than the run has made
  const RunSummary summary = resume({"training.batch=16"});
  EXPECT_EQ(warned_, "");
  EXPECT_TRUE(says(said_, "after step 3 (epoch 1, step 5 of it)"));
  EXPECT_EQ(verify_checkpoint(summary.checkpoint).samples, 2 * kTrained);
}

TEST_F(ResumeWith, AnEpochBeginsAgainIfTheBatchDoesNotDivideItsSamples) {
  stop_after(2);
  const RunSummary summary = resume({"training.batch=63"});
  EXPECT_TRUE(says(
      warned_, "the epoch has used 64 samples, which batches of 63 do not divide, so epoch 1 begins again"));
  EXPECT_EQ(verify_checkpoint(summary.checkpoint).samples, 64 + 2 * kTrained);
  EXPECT_EQ(lines("epoch").size(), 2U);
}

TEST_F(ResumeWith, AnEpochBeginsAgainInAnotherOrder) {
  stop_after(2);
  resume({"data.shuffle=false"});
  EXPECT_TRUE(says(warned_, "the order of the samples has changed, so epoch 1 begins again"));
}

class ResumeFromVersion1 : public ResumeWith {
 protected:
  /// Makes the checkpoint of step 2 one of a version that had no field for its order.
  void forget_order() const {
    const fs::path state = path() / "checkpoints" / "step-00000002" / "state.json";
    auto json = nlohmann::json::parse(test::read_text(state));
    EXPECT_EQ(json.at("order_version"), kOrderVersion);
    json.erase("order_version");
    json.erase("crc32");
    test::write_text(state, json.dump());
  }
};

TEST_F(ResumeFromVersion1, AnEpochBeginsAgain) {
  stop_after(2);
  forget_order();
  const RunSummary summary = resume({});
  EXPECT_TRUE(says(
      warned_,
      "the checkpoint is of a version of telar that shuffled in another order, so epoch 1 begins again"));
  const TrainingState state = verify_checkpoint(summary.checkpoint);
  EXPECT_EQ(state.samples, 64 + 2 * kTrained);
  EXPECT_EQ(state.order_version, kOrderVersion);
}

TEST_F(ResumeFromVersion1, AnEpochInTheOrderOfTheDataContinues) {
  stop_after(2, {"data.shuffle=false"});
  forget_order();
  const RunSummary summary = resume({"data.shuffle=false"});
  EXPECT_EQ(warned_, "");
  EXPECT_EQ(verify_checkpoint(summary.checkpoint).samples, 2 * kTrained);
}

TEST_F(ResumeWith, AFinishedRunHasNothingToDoAndKeepsItsSummary) {
  run({});
  const std::string before = test::read_text(path() / "summary.json");
  const RunSummary again = resume({});
  EXPECT_TRUE(again.nothing_to_do);
  EXPECT_EQ(again.why, "all 2 epochs are done");
  EXPECT_EQ(test::read_text(path() / "summary.json"), before);
  EXPECT_EQ(lines("test").size(), 1U);
  fs::remove(path() / "summary.json");
  EXPECT_FALSE(resume({}).nothing_to_do) << "killed before the test";
  EXPECT_TRUE(
      nlohmann::json::parse(test::read_text(path() / "summary.json")).at("images_per_second").is_null());
}

TEST_F(ResumeWith, AStopInAValidationOrTestIsResumedThere) {
  const std::vector<std::string> one{"training.epochs=1", "training.evaluation_batch=1"};
  // Asked after 5 of 6 steps, then before each of the 21 samples for validation, and of the 20 for the test.
  stop_after(7, one);
  EXPECT_TRUE(lines("epoch").empty());
  EXPECT_EQ(verify_checkpoint(path() / "checkpoints" / "step-00000006").step_in_epoch, 6);
  stop_after(30, one, true);
  EXPECT_EQ(lines("epoch").size(), 1U);
  EXPECT_TRUE(lines("test").empty());
  const TrainingState state = verify_checkpoint(path() / "checkpoints" / "step-00000006");
  EXPECT_EQ(state.epoch, 1);
  EXPECT_TRUE(state.best);
  const RunSummary summary = resume(one);
  EXPECT_EQ(summary.outcome, FitOutcome::finished);
  EXPECT_FALSE(summary.nothing_to_do);
  EXPECT_FALSE(summary.test.empty());
  EXPECT_EQ(lines("test").size(), 1U);
  EXPECT_TRUE(resume(one).nothing_to_do);
}

TEST_F(ResumeWith, MorePatienceContinuesAfterEarlyStopping) {
  const std::vector<std::string> rising = {"training.epochs=30", "optimizer.learning_rate=1e-12"};
  std::vector<std::string> impatient = rising;
  impatient.emplace_back("training.early_stopping.patience=1");
  const RunSummary early = run(impatient);
  ASSERT_TRUE(early.stopped_early);
  EXPECT_TRUE(says(early.why,
                   fmt::format("early stopping after {} of 30 epochs: the validation loss has not improved",
                               early.epochs)));
  EXPECT_TRUE(says(test::read_text(path() / "summary.json"), "early stopping after"));
  EXPECT_TRUE(resume(impatient).nothing_to_do);
  std::vector<std::string> patient = rising;
  patient.emplace_back("training.early_stopping.patience=3");
  EXPECT_GT(resume(patient).epochs, early.epochs);
}

TEST_F(ResumeWith, ARefusedChangeNamesTheReasonAndChangesNothing) {
  run({});
  const std::string before = test::read_text(path() / "metrics.jsonl");
  expect_error(
      [&] {
        resume({"training.seed=2", "training.epochs=3"});
      },
      {"is a run of another job",
       "training.seed: 1 → 2, which cannot change, because the seed also selects"});
  EXPECT_EQ(test::read_text(path() / "metrics.jsonl"), before);
}

TEST(Resume, ARunThatFailsAfterAStepSaysSoInItsSummary) {
  const test::TempFolder folder;
  const test::PictureFolder pictures(folder / "pictures");
  pictures.damage_inside(19);  // of the last batch
  const std::string job = fmt::format(
      "model: {{name: mlp, options: {{hidden: [4]}}}}\n"
      "data: {{source: images, path: \"{}\", shape: [1, 8, 8], validation: 0, shuffle: false, mean: [0], std: [1]}}\n"
      "training: {{epochs: 1, batch: 5}}\noutput: {{folder: \"{}\"}}\n",
      pictures.path().string(), (folder / "run").string());
  EXPECT_THROW(run_job(parse_job(job, "job.yaml"), {}), Error);
  const auto summary = nlohmann::json::parse(test::read_text(folder / "run" / "summary.json"));
  EXPECT_EQ(summary.at("outcome"), "failed");
  EXPECT_TRUE(says(summary.at("why").get<std::string>(), "19.png")) << summary;
  EXPECT_EQ(summary.at("steps"), 3);
}

TEST_F(ResumeWith, TheSummarySaysSinceWhichStepItHasMeasured) {
  stop_after(2);
  EXPECT_EQ(nlohmann::json::parse(test::read_text(path() / "summary.json")).at("since_step"), 0);
  EXPECT_EQ(resume({}).since_step, 2);
  const auto summary = nlohmann::json::parse(test::read_text(path() / "summary.json"));
  EXPECT_EQ(summary.at("since_step"), 2);
  EXPECT_EQ(summary.at("steps"), 12);
}

TEST_F(ResumeWith, ARunThatEndsWithoutMemorySaysSoInItsSummary) {
  stop_after(2);
  RunOptions options{.resume = true};
  options.stop_requested = [left = 3]() mutable { return --left == 0 ? throw std::bad_alloc() : false; };
  EXPECT_THROW(run({}, options), std::bad_alloc);
  const auto summary = nlohmann::json::parse(test::read_text(path() / "summary.json"));
  EXPECT_EQ(summary.at("outcome"), "failed");
  EXPECT_EQ(summary.at("why"), out_of_memory("").what());
  EXPECT_EQ(summary.at("since_step"), 2);
}

TEST(Resume, ARunThatIsRefusedAtItsFirstStepKeepsItsJobAndItsLog) {
  const test::TempFolder folder;
  const test::PictureFolder pictures(folder / "pictures");
  const std::string job = fmt::format(
      "model: {{name: mlp, options: {{hidden: [4]}}}}\n"
      "data: {{source: images, path: \"{}\", shape: [1, 8, 8], validation: 0}}\n"
      "training: {{epochs: 1, batch: 20}}\noutput: {{folder: \"{}\"}}\n",
      pictures.path().string(), (folder / "run").string());
  run_job(parse_job(job, "job.yaml"), {});
  const auto files = [&] {
    return test::read_text(folder / "run" / "job.yaml") + test::read_text(folder / "run" / "metrics.jsonl");
  };
  const std::string before = files();
  for (int i = 0; i < 20; ++i) pictures.damage_inside(i);
  EXPECT_THROW(run_job(read_job(folder / "run" / "job.yaml", {"training.epochs=2"}), {.resume = true}),
               Error);
  EXPECT_EQ(files(), before);
}

TEST_F(ResumeWith, APositionOutsideTheEpochIsRefused) {
  stop_after(2);
  const fs::path state = path() / "checkpoints" / "step-00000002" / "state.json";
  auto json = nlohmann::json::parse(test::read_text(state));
  json.erase("crc32");
  json["step"] = 7;
  json["step_in_epoch"] = 7;
  fs::rename(state.parent_path(), path() / "checkpoints" / "step-00000007");
  test::write_text(path() / "checkpoints" / "step-00000007" / "state.json", json.dump());
  expect_error([&] { resume({}); }, {"state.json: step_in_epoch is 7; an epoch of this job has 6 steps"});
}

std::string table_of(int rows, int first = 0) {
  std::string text = "a,b,label\n";
  for (int row = 0; row < rows; ++row)
    text += fmt::format("{},{},{}\n", (row + first) % 10, row % 7, row % 2);
  return text;
}

class ChangedData : public testing::Test {
 protected:
  void SetUp() override {
    test::write_text(folder_ / "table.csv", table_of(100));
    const std::string job = fmt::format(
        "model: {{name: mlp, options: {{hidden: [4]}}}}\n"
        "data: {{source: csv, path: \"{}\", classes: 2}}\n"
        "training: {{epochs: 2, batch: 10}}\noutput: {{folder: \"{}\"}}\n",
        (folder_ / "table.csv").string(), run().string());
    run_job(parse_job(job, "job.yaml"), {});
  }
  fs::path run() const { return folder_ / "run"; }

  RunSummary resume(bool accept) const {
    return run_job(read_job(run() / "job.yaml", {"training.epochs=3"}),
                   {.resume = true, .accept_changed_data = accept});
  }

  test::TempFolder folder_;
};

TEST_F(ChangedData, IsNoticedByItsNumber) {
  test::write_text(folder_ / "table.csv", table_of(60));
  expect_error([&] { resume(false); },
               {"training samples: 90 before, 54 now", "bytes of data.path: ", "--accept-changed-data"});
  EXPECT_EQ(resume(true).steps, 2 * 9 + 6);
  EXPECT_TRUE(says(test::read_text(run() / "metrics.jsonl"), "training samples: 90 before, 54 now"));
  EXPECT_TRUE(resume(false).nothing_to_do) << "the data are now those of the run";
}

TEST_F(ChangedData, IsNoticedByItsContent) {
  test::write_text(folder_ / "table.csv", table_of(100, 1));
  expect_error([&] { resume(false); }, {"checksum of data.path: "});
}

TEST_F(ChangedData, ARunKeepsItsMeans) {
  const auto with = [&](const std::string& more, int epochs) {
    return parse_job(
        fmt::format("model: mlp\ndata: {{source: csv, path: \"{}\", classes: 2{}}}\n"
                    "training: {{epochs: {}, batch: 10}}\noutput: {{folder: \"{}\"}}\n",
                    (folder_ / "table.csv").string(), more, epochs, (folder_ / "given").string()),
        "job.yaml");
  };
  run_job(with(", mean: [1, 2], std: [3, 4]", 1), {});
  EXPECT_EQ(run_job(with("", 2), {.resume = true}).epochs, 2);
  EXPECT_EQ(read_job(folder_ / "given" / "job.yaml").data.mean, (std::vector<double>{1, 2}));
}

TEST_F(ChangedData, AnotherPlaceIsNoChange) {
  fs::rename(folder_ / "table.csv", folder_ / "moved.csv");
  test::write_text(folder_ / "other" / "table.csv", test::read_text(folder_ / "moved.csv"));
  const Job moved = read_job(
      run() / "job.yaml", {"training.epochs=3", "data.path=" + (folder_ / "other" / "table.csv").string()});
  EXPECT_EQ(run_job(moved, {.resume = true}).epochs, 3);
}

}  // namespace
}  // namespace telar
