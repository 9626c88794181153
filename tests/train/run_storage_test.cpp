#include "telar/train/run_storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>

#include "io/temp_folder.h"
#include "support/programs.h"
#include "support/sentences.h"
#include "telar/train/checkpoint.h"
#include "telar/train/job_reader.h"
#include "telar/train/run.h"
#include "telar/train/shared_task.h"

namespace telar {
namespace {

using test::expect_error;
using test::says;

namespace fs = std::filesystem;

/// 6 steps of an epoch, the last of each with a checkpoint.
const std::string kJob =
    "model: {name: mlp, options: {hidden: [8]}}\n"
    "data: {source: synthetic, samples: 192, shape: [1, 4, 4], classes: 3, validation: 0}\n"
    "optimizer: {name: sgd, learning_rate: 0.01, momentum: 0.9}\n"
    "training: {epochs: 4, batch: 32}\n";

/// Calls a function after a step.
class AtStep final : public TrainingObserver {
 public:
  AtStep(int64_t step, std::function<void()> action) : step_(step), action_(std::move(action)) {}
  void step_done(const StepReport& /*report*/, const TrainingState& state) override {
    if (state.step == step_) action_();
  }

 private:
  int64_t step_;
  std::function<void()> action_;
};

class RunStorageTest : public testing::Test {
 protected:
  RunSummary run(const std::string& folder, std::vector<std::string> overrides = {},
                 RunOptions options = {}) {
    overrides.push_back("output.folder=" + (folder_ / folder).string());
    overrides.insert(overrides.begin(), "output.storage=" + stored().string());
    options.say = [this](const std::string& text) { said_ += text + "\n"; };
    options.warn = [this](const std::string& text) { warned_ += text + "\n"; };
    return run_job(parse_job(kJob, "job.yaml", overrides), options);
  }
  RunSummary resume(const std::string& folder, const std::vector<std::string>& overrides = {}) {
    return run(folder, overrides, {.resume = true});
  }

  fs::path stored() const { return folder_ / "stored"; }
  fs::path model(const std::string& folder, int64_t step) const {
    return checkpoint_path(folder_ / folder / "checkpoints", step) / "model.safetensors";
  }

  /// "18 24" of "step-00000018-ID.json" and "step-00000024-ID.json"; of the folders if `end` is empty.
  std::string steps(const std::string& end = ".json") const {
    std::set<int64_t> steps;
    for (const auto& entry : fs::directory_iterator(stored())) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() == end.empty() && name.starts_with("step-"))
        steps.insert(std::stoll(name.substr(5, 8)));
    }
    return fmt::format("{}", fmt::join(steps, " "));
  }
  std::vector<std::string> owners() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(stored()))
      if (const std::string name = entry.path().filename().string(); name.starts_with("owner-"))
        names.push_back(name);
    return names;
  }
  fs::path of_step(int64_t step, bool marker) const {
    for (const auto& entry : fs::directory_iterator(stored()))
      if (entry.path().filename().string().starts_with(checkpoint_path("", step).string()) &&
          entry.is_directory() != marker)
        return entry.path();
    return {};
  }

  const test::TempFolder folder_;
  std::string said_;
  std::string warned_;
};

TEST_F(RunStorageTest, ARunGoesOnWithoutItsFolderAsIfItHadBeenThere) {
  run("whole");
  fs::remove_all(stored());
  run("run", {"training.epochs=2"});
  EXPECT_EQ(steps(), "6 12");
  fs::remove_all(folder_ / "run");
  resume("other");
  EXPECT_TRUE(says(said_, "step-00000012 comes from " + stored().string()));
  EXPECT_EQ(test::read_text(model("other", 24)), test::read_text(model("whole", 24)));
  EXPECT_TRUE(says(test::read_text(folder_ / "other" / "metrics.jsonl"), "\"step\":1,"));
  EXPECT_EQ(steps(), "18 24");
  EXPECT_EQ(steps(""), "18 24");
  EXPECT_EQ(warned_, "");
}

TEST_F(RunStorageTest, AnOlderFolderIsBroughtUpToDateAndANewerOneIsNot) {
  run("run", {"training.epochs=1"});
  fs::copy(folder_ / "run", folder_ / "older", fs::copy_options::recursive);
  resume("run", {"training.epochs=2"});
  EXPECT_EQ(said_.find("comes from"), std::string::npos);
  resume("older", {"training.epochs=3"});
  EXPECT_TRUE(says(said_, "step-00000012 comes from"));
}

TEST_F(RunStorageTest, TheSameCommandGoesOnWithoutResume) {
  RunOptions options;
  bool stops = false;
  AtStep at_step(9, [&] { stops = true; });
  options.observer = &at_step;
  options.stop_requested = [&] { return stops; };
  EXPECT_EQ(run("run", {}, options).outcome, FitOutcome::stopped);
  EXPECT_EQ(run("other").steps, 24);
  EXPECT_TRUE(says(said_, "step-00000009 comes from"));
}

TEST_F(RunStorageTest, WhatWasBrokenOffIsNotUsedAndIsRemoved) {
  run("run", {"training.epochs=2"});
  fs::remove(of_step(12, true));
  resume("other", {"training.epochs=3"});
  EXPECT_TRUE(says(said_, "step-00000006 comes from"));
  EXPECT_EQ(steps(""), "12 18") << "the new one of step 12";
  EXPECT_EQ(steps(), "12 18");
}

TEST_F(RunStorageTest, OfADamagedOneTheOneBeforeIsUsed) {
  for (const bool missing : {false, true}) {
    run("run", {"training.epochs=2"});
    const fs::path file =
        of_step(12, false) / (missing ? "run/metrics.jsonl" : "checkpoint/model.safetensors");
    std::string bytes = test::read_text(file);
    bytes[bytes.size() / 2] ^= 1;
    missing ? void(fs::remove(file)) : test::write_text(file, bytes);
    resume("other", {"training.epochs=3"});
    EXPECT_TRUE(says(warned_, missing
                                  ? "the file run/metrics.jsonl is missing"
                                  : "the file checkpoint/model.safetensors is not the one that was stored"));
    EXPECT_TRUE(says(said_, "step-00000006 comes from"));
    for (const char* used : {"run", "other", "stored"}) fs::remove_all(folder_ / used);
    said_ = warned_ = "";
  }
}

TEST_F(RunStorageTest, ADamagedNewestCheckpointOfTheFolderHidesNoStoredOne) {
  run("run", {"training.epochs=2"});
  test::write_text(model("run", 12), "damaged");
  EXPECT_EQ(resume("run").steps, 24);
  EXPECT_TRUE(says(warned_, "a checkpoint of the folder is damaged; it is kept as"));
  EXPECT_TRUE(says(warned_, "step-00000012.damaged"));
  EXPECT_TRUE(says(said_, "step-00000012 comes from"));
  EXPECT_TRUE(says(said_, "after step 12"));

  said_ = "";
  test::write_text(model("run", 24), "damaged");
  fs::remove(of_step(24, true));
  resume("run");
  EXPECT_EQ(said_.find("comes from"), std::string::npos) << "the folder has step 18, too";
  EXPECT_TRUE(says(said_, "after step 18"));
}

TEST_F(RunStorageTest, AMarkerWithoutItsFolderIsSkipped) {
  for (const char* gone : {"", "checkpoint", "run"}) {
    run("run", {"training.epochs=2"});
    fs::remove_all(of_step(12, false) / gone);
    resume("other", {"training.epochs=3"});
    EXPECT_TRUE(says(warned_, "/step-00000012-"));
    EXPECT_TRUE(says(warned_, "the one before is used"));
    EXPECT_TRUE(says(said_, "step-00000006 comes from"));
    EXPECT_EQ(steps(), "12 18");
    for (const char* used : {"run", "other", "stored"}) fs::remove_all(folder_ / used);
    said_ = warned_ = "";
  }
}

TEST_F(RunStorageTest, AMarkerThatIsDamagedIsSkippedAndWithoutAnotherTheRunIsRefused) {
  run("run", {"training.epochs=2"});
  test::write_text(of_step(12, true), "{");
  resume("other", {"training.epochs=3"});
  EXPECT_TRUE(says(said_, "step-00000006 comes from"));
  for (const int64_t step : {12, 18}) test::write_text(of_step(step, true), "{");
  fs::remove_all(folder_ / "other");
  expect_error([&] { resume("other"); }, {"none of the 2 checkpoints in " + stored().string()});
  EXPECT_EQ(resume("run", {"training.epochs=3"}).steps, 18) << "what is in the folder is there still";
}

TEST_F(RunStorageTest, ABestCheckpointThatCouldNotBeStoredIsTriedAgain) {
  const std::vector<std::string> same = {"data.validation=0.25", "optimizer.learning_rate=1e-9",
                                         "output.keep=1"};
  const test::Programs programs(folder_.path());
  programs.replace("dd", "case $2 in of=*/step-00000005-*) if rm " + (folder_ / "once").string() +
                             "; then echo full >&2; exit 1; fi;; esac");
  test::write_text(folder_ / "once", "");
  const RunSummary once = run("run", same);
  EXPECT_TRUE(says(warned_, "step-00000005 is not stored (1 in a row)"));
  EXPECT_EQ(once.not_stored, "");
  EXPECT_EQ(steps(), "5 20");

  for (const char* used : {"run", "stored"}) fs::remove_all(folder_ / used);
  programs.replace("dd", "case $2 in of=*/step-00000005-*) echo full >&2; exit 1;; esac");
  EXPECT_TRUE(says(run("run", same).not_stored, "step-00000005 is not stored"));
  EXPECT_EQ(steps(), "20");
  programs.replace("dd", "");
  std::vector<std::string> again = same;
  EXPECT_EQ(resume("run", again).not_stored, "");
  EXPECT_EQ(steps(), "5 20");
}

TEST_F(RunStorageTest, TheBestCheckpointStaysAndComesAlong) {
  // Too small a rate to change the accuracy: the first epoch is the best.
  const std::vector<std::string> same = {"data.validation=0.25", "optimizer.learning_rate=1e-9",
                                         "output.keep=1"};
  const TrainingState state = verify_checkpoint(run("run", same).checkpoint);
  ASSERT_LT(state.best_step, state.step);
  EXPECT_EQ(steps(), fmt::format("{} {}", state.best_step, state.step));
  fs::remove_all(folder_ / "run");
  run("other", same);
  EXPECT_TRUE(fs::exists(model("other", state.best_step)));

  // It is looked for also if the folder has the newest one.
  fs::remove_all(model("other", state.best_step).parent_path());
  resume("other", same);
  EXPECT_TRUE(fs::exists(model("other", state.best_step)));

  for (const auto& entry : fs::directory_iterator(stored()))
    if (entry.path().filename().string().starts_with(fmt::format("step-{:08}", state.best_step)) &&
        entry.is_directory())
      test::write_text(entry.path() / "checkpoint" / "model.safetensors", "damaged");
  fs::remove_all(model("other", state.best_step).parent_path());
  resume("other", same);
  EXPECT_TRUE(says(warned_, fmt::format("the best checkpoint, step-{:08}", state.best_step)));
  EXPECT_FALSE(says(warned_, "is used"));
  EXPECT_EQ(steps(), fmt::format("{} {}", state.best_step, state.step));
}

TEST_F(RunStorageTest, AnotherRunAndAnotherJobAreRefused) {
  run("run", {"training.epochs=2"});
  expect_error([&] { run("other", {"training.batch=16"}); },
               {"has a run of another job", "training.batch: 32 → 16", "--storage", "--resume"});
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  expect_error([&] { resume("other", {"training.seed=9"}); }, {"has a run of another job", "training.seed"});
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  fs::rename(stored(), folder_ / "first");
  run("other", {"training.epochs=1"});
  fs::remove_all(stored());
  fs::rename(folder_ / "first", stored());
  const std::vector<std::string> before = owners();
  expect_error([&] { resume("other"); }, {"has another run than " + (folder_ / "other").string()});
  EXPECT_EQ(owners(), before);
  expect_error([&] { resume("other", {"output.storage=" + (folder_ / "other" / "in").string()}); },
               {"one is within the other"});
  EXPECT_FALSE(fs::exists(folder_ / "other" / "in"));
}

TEST_F(RunStorageTest, WhatCannotBeStoredIsAWarningWithANumberAndIsMadeUpFor) {
  RunOptions options;
  const fs::path away = folder_ / "away";
  AtStep at_step(2, [&] {
    fs::rename(stored(), away);
    test::write_text(stored(), "a file");
  });
  options.observer = &at_step;
  const RunSummary failed = run("run", {}, options);
  EXPECT_TRUE(says(failed.not_stored, "step-00000024 is not stored (4 in a row): " + stored().string()));
  EXPECT_TRUE(says(warned_, "step-00000006 is not stored (1 in a row)"));
  EXPECT_TRUE(says(warning_of(failed), "is not stored"));
  EXPECT_TRUE(says(warned_, "the next process that continues the run waits for 180 s first"));
  fs::remove(stored());
  fs::rename(away, stored());
  for (const auto& entry : fs::directory_iterator(stored()))
    if (entry.path().filename().string().starts_with("owner-")) fs::remove(entry.path());
  const RunSummary done = resume("run");
  EXPECT_TRUE(done.nothing_to_do);
  EXPECT_EQ(done.not_stored, "");
  EXPECT_EQ(steps(), "24");
}

TEST_F(RunStorageTest, AStoppedRunThatIsNotStoredSaysSoAndHasAnExitCodeOfItsOwn) {
  const test::Programs programs(folder_.path());
  RunOptions options;
  bool stops = false;
  AtStep at_step(9, [&] {
    programs.replace("dd", "echo full >&2; exit 1");
    stops = true;
  });
  options.observer = &at_step;
  options.stop_requested = [&] { return stops; };
  const RunSummary stopped = run("run", {}, options);
  EXPECT_EQ(stopped.outcome, FitOutcome::stopped);
  EXPECT_TRUE(says(warning_of(stopped), model("run", 9).parent_path().string() + " is not stored"));
  EXPECT_TRUE(fs::exists(model("run", 9)));
  EXPECT_EQ(exit_code_of(stopped, SIGTERM, nullptr), kStoppedUnstored);
  programs.replace("dd", "");
  stops = false;
  EXPECT_EQ(exit_code_of(resume("run"), 0, nullptr), 0);
  EXPECT_EQ(steps(), "18 24");
}

TEST_F(RunStorageTest, AProcessWhoseRunAnotherStoresEndsWithoutStoring) {
  RunOptions options;
  AtStep at_step(15,
                 [&] { test::write_text(stored() / "owner-00000009-0123456789abcdef", "host9 12 ? 3\n"); });
  options.observer = &at_step;
  expect_error([&] { run("run", {}, options); },
               {"process 12 on host9 stores the run here, so this process (", "--storage"});
  EXPECT_TRUE(steps() == "6" || steps() == "6 12") << steps() << ": step 12 may have been on its way";
  EXPECT_TRUE(fs::exists(model("run", 12)));
}

TEST_F(RunStorageTest, AStopEndsTheWaitForTheOneBeforeAndForAPlaceThatDoesNotAnswer) {
  fs::create_directory(stored());
  test::write_text(stored() / "owner-00000001-0123456789abcdef", "host9 12 ? 3\n");
  RunOptions options;
  options.stop_requested = [&] { return said_.find("is watched") != std::string::npos; };
  EXPECT_EQ(run("run", {}, options).outcome, FitOutcome::stopped);
  EXPECT_EQ(owners().size(), 1U);
  EXPECT_FALSE(fs::exists(folder_ / "run"));

  const test::Programs programs(folder_.path());
  programs.replace("ls", "touch " + (folder_ / "hangs").string() + "; exec sleep 1000");
  options.stop_requested = [&] { return fs::exists(folder_ / "hangs"); };
  EXPECT_EQ(run("run", {}, options).outcome, FitOutcome::stopped);
  EXPECT_EQ(warned_, "");
}

TEST_F(RunStorageTest, ARunWhoseStepsAreAllStoredNeedsNoOtherProcess) {
  const auto trained = [&](const std::string& folder, int epochs, bool resume) {
    return has_trained(
        parse_job(kJob, "job.yaml",
                  {"output.folder=" + (folder_ / folder).string(), "output.storage=" + stored().string(),
                   fmt::format("training.epochs={}", epochs)}),
        resume);
  };
  EXPECT_FALSE(trained("run", 2, true));
  run("run", {"training.epochs=2"});
  EXPECT_TRUE(trained("run", 2, true));
  EXPECT_TRUE(trained("other", 2, true));
  EXPECT_FALSE(trained("run", 3, true));
  fs::remove_all(stored());
  EXPECT_TRUE(trained("run", 2, true));
  EXPECT_FALSE(trained("run", 2, false));
}

TEST_F(RunStorageTest, APlaceThatIsNoneAndAMissingProgramAreSentences) {
  const auto storage = [](const std::string& place) {
    return [place] { RunStorage({.storage = place}, {}).look(); };
  };
  for (const char* place : {"bucket/run", "gs://bucket/run", "s3://", ":run"})
    expect_error(storage(place),
                 {fmt::format("output.storage is '{}'; it must be s3://BUCKET/FOLDER", place)});
  const std::string path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  ::setenv("PATH", folder_.path().c_str(), 1);   // NOLINT(concurrency-mt-unsafe)
  expect_error(storage("s3://bucket/run"), {"needs the program rclone or aws, which is not on the PATH"});
  expect_error(storage("remote:run"), {"needs the program rclone, which is not on the PATH"});
  ::setenv("PATH", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace telar
