#include "telar/train/checkpoint_observer.h"

#include <gtest/gtest.h>

#include "io/temp_folder.h"
#include "support/make_session.h"
#include "support/sentences.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

class CheckpointObserverTest : public testing::Test {
 protected:
  static std::unique_ptr<Session> made() {
    StepOptions options;
    options.batch = 8;
    options.optimizer = AdamOptions{};
    return test::make_session(make_model("mlp", {{"hidden", std::vector<int64_t>{5}}}, {6}, 3), options,
                              {.session = {.seed = 11}});
  }

  /// A step of the training, and its checkpoint.
  void train_to(CheckpointObserver& observer, int64_t step) {
    const test::Samples samples(8, {6}, 3);
    session_->train(samples.view(), {0.01F, step, 0});
    observer.epoch_done({.epoch = step - 1}, at(step));
  }

  static TrainingState at(int64_t step) {
    TrainingState state;
    state.step = step;
    return state;
  }

  std::vector<std::vector<float>> values() const {
    std::vector<std::vector<float>> all;
    for (const StateName& name : session_->state_names()) all.push_back(session_->read_state(name));
    return all;
  }

  std::vector<std::vector<float>> values_of(int64_t step) const {
    std::vector<std::vector<float>> all;
    for (const StateName& name : session_->state_names())
      all.push_back(read_checkpoint_tensor(checkpoint_path(folder(), step), name));
    return all;
  }

  CheckpointWriting behind(const std::string& after) {
    return {.folder = folder(), .behind = true, .after = after, .warn = [this](const std::string& text) {
              warnings_.push_back(text);
            }};
  }

  fs::path folder() const { return run_ / "checkpoints"; }
  void SetUp() override { fs::create_directories(folder()); }

  const test::TempFolder run_;
  const std::unique_ptr<Session> session_ = made();
  std::vector<std::string> warnings_;  // by the thread that writes, which has ended when they are read
};

TEST_F(CheckpointObserverTest, ACheckpointWrittenBehindIsOfTheStepAtWhichItWasDue) {
  CheckpointObserver observer(behind("while [ ! -e $TELAR_RUN/go ]; do sleep 0.01; done"), *session_, {});
  train_to(observer, 1);
  const auto first = values();
  const test::Samples samples(8, {6}, 3);
  session_->train(samples.view(), {0.01F, 2, 0});  // while the thread writes
  test::write_text(run_ / "go", "");
  observer.save(at(2));
  EXPECT_EQ(values_of(1), first);
  EXPECT_EQ(values_of(2), values());
  EXPECT_NE(values_of(1), values_of(2));
  EXPECT_EQ(verify_checkpoint(checkpoint_path(folder(), 1)).step, 1);
}

TEST_F(CheckpointObserverTest, TheCommandSeesACheckpointBeforeAnOlderOneIsRemoved) {
  CheckpointObserver observer(behind("ls $TELAR_RUN/checkpoints > $TELAR_CHECKPOINT.list"), *session_,
                              {.keep = 1});
  for (int64_t step = 1; step <= 3; ++step) train_to(observer, step);
  observer.save(at(3));
  EXPECT_EQ(test::read_text(folder() / "step-00000003.list"),
            "step-00000001.list\nstep-00000002\nstep-00000002.list\nstep-00000003\nstep-00000003.list\n");
  EXPECT_FALSE(fs::exists(checkpoint_path(folder(), 2)));
  EXPECT_EQ(observer.failure(), "");
}

TEST_F(CheckpointObserverTest, ACommandThatFailsIsAWarningUntilOneSucceeds) {
  CheckpointObserver observer(behind("test -e $TELAR_RUN/there"), *session_, {});
  train_to(observer, 1);
  observer.save(at(1));
  EXPECT_TRUE(test::says(observer.failure(), "output.after_checkpoint has ended with exit code 1"));
  EXPECT_EQ(warnings_, std::vector{observer.failure()});
  test::write_text(run_ / "there", "");
  train_to(observer, 2);
  observer.save(at(2));
  EXPECT_EQ(observer.failure(), "");
  EXPECT_EQ(warnings_.size(), 1);
}

TEST_F(CheckpointObserverTest, TheLastCheckpointIsWrittenWhileTheCommandRunsForAnEarlierOne) {
  // For the first one it waits until the second is there; for that it notes that it was called.
  CheckpointObserver observer(
      behind("if [ -e $TELAR_RUN/called ]; then touch $TELAR_RUN/again; else touch $TELAR_RUN/called; "
             "while [ ! -e $TELAR_RUN/checkpoints/step-00000002 ]; do sleep 0.01; done; fi"),
      *session_, {});
  train_to(observer, 1);
  while (!fs::exists(run_ / "called")) observer.step_done({.sums = {}}, at(1));
  observer.save(at(2));
  EXPECT_TRUE(fs::exists(run_ / "again"));
  EXPECT_EQ(observer.failure(), "");
}

TEST_F(CheckpointObserverTest, ACommandMayMoveTheCheckpointAway) {
  CheckpointObserver observer(behind("mv $TELAR_CHECKPOINT $TELAR_RUN/moved"), *session_, {});
  observer.save(at(1));
  EXPECT_TRUE(fs::exists(run_ / "moved" / "state.json"));
}

TEST_F(CheckpointObserverTest, TheCommandRunsAlsoForACheckpointThatAnEarlierProcessHasWritten) {
  CheckpointObserver(behind(""), *session_, {}).save(at(1));
  CheckpointObserver(behind("touch $TELAR_RUN/copied"), *session_, {}).save(at(1));
  EXPECT_TRUE(fs::exists(run_ / "copied"));
}

TEST_F(CheckpointObserverTest, ACheckpointIsStoredBeforeTheCommandRunsAndOlderOnesAreRemoved) {
  CheckpointWriting writing = behind("test -e $TELAR_CHECKPOINT.stored && test -e $TELAR_CHECKPOINT");
  writing.store = [&](const fs::path& path, int64_t /*best*/) {
    test::write_text(path.string() + ".stored", "");
    return path.filename() == "step-00000002" ? "full" : "";
  };
  CheckpointObserver observer(writing, *session_, {.keep = 1});
  train_to(observer, 1);
  observer.save(at(2));
  EXPECT_EQ(observer.failure(), "");
  EXPECT_EQ(observer.not_stored(), "full");
  EXPECT_FALSE(fs::exists(checkpoint_path(folder(), 1)));
  observer.save(at(3));
  EXPECT_EQ(observer.not_stored(), "");
}

TEST_F(CheckpointObserverTest, AWaitForTheCommandIsReportedAfterAWhileAndEachTimeItHasDoubled) {
  CheckpointWriting writing = behind("while [ ! -e $TELAR_RUN/go ]; do sleep 0.01; done");
  writing.patience = std::chrono::milliseconds(250);
  writing.warn = [this](const std::string& text) {
    warnings_.push_back(text);
    if (warnings_.size() == 3) test::write_text(run_ / "go", "");
  };
  CheckpointObserver(writing, *session_, {}).save(at(1));
  ASSERT_EQ(warnings_.size(), 3);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(test::says(warnings_[i], fmt::format("has waited {} s for the end of output.after_checkpoint",
                                                     (std::vector{"0.25", "0.5", "1"})[i])));
}

TEST_F(CheckpointObserverTest, WhatTheThreadCannotWriteIsAnErrorOfTheNextCall) {
  CheckpointObserver observer(behind(""), *session_, {});
  fs::remove(folder());
  test::write_text(folder(), "a file\n");
  train_to(observer, 1);
  EXPECT_THROW(observer.save(at(1)), std::exception);
}

}  // namespace
}  // namespace telar
