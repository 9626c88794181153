#include "telar/observe/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "telar/observe/progress_text.h"

namespace telar {
namespace {

/// Progress that is written to a string, with a clock that the test sets.
class ProgressTest : public testing::Test {
 protected:
  ProgressOptions options(ProgressStyle style, int columns = 100) {
    ProgressOptions chosen;
    chosen.style = style;
    chosen.columns = [columns] { return columns; };
    chosen.clock = [this] { return time_; };
    return chosen;
  }

  /// The terminal's last line: everything after the last carriage return.
  std::string last_drawn() const {
    const std::string all = out_.str();
    const size_t start = all.rfind("\r\x1b[K");
    return start == std::string::npos ? all : all.substr(start + 4);
  }

  std::ostringstream out_;
  double time_ = 1000;
};

TEST_F(ProgressTest, TheBarShowsTheProgress) {
  Progress progress(out_, options(ProgressStyle::bar));
  progress.begin_epoch(1, 2, 1000);
  time_ += 2;
  progress.update({500, 0.51239, 0.75});
  // 250 images/s; 500 images of this epoch and 1,000 of the next remain.
  EXPECT_EQ(
      last_drawn(),
      "[============>            ]  epoch 1/2   50%  loss 0.5124  accuracy 0.7500  250 images/s  0:06 left");
}

TEST_F(ProgressTest, AStreamShowsWhatWaits) {
  Progress progress(out_, options(ProgressStyle::bar));
  progress.begin_epoch(1, 2, 1000);
  time_ += 2;
  progress.update({500, 0.5, {}, 1234});
  EXPECT_TRUE(last_drawn().ends_with("250 images/s  1,234 behind  0:06 left")) << last_drawn();
  progress.end_epoch({0.5, {}, {}, {}, 7});
  EXPECT_NE(out_.str().find("500 images/s  7 behind"), std::string::npos);
}

TEST_F(ProgressTest, TheBarIsRedrawnAtMostTenTimesASecond) {
  Progress progress(out_, options(ProgressStyle::bar));
  progress.begin_epoch(1, 1, 1000);
  for (int i = 1; i <= 1000; ++i) {
    time_ += 0.001;
    progress.update({i, 0.5, {}});
  }
  const std::string all = out_.str();
  const auto drawn = std::count(all.begin(), all.end(), '\r');
  EXPECT_GE(drawn, 8);
  EXPECT_LE(drawn, 10);
}

TEST_F(ProgressTest, NoLineIsWiderThanTheTerminal) {
  for (int columns = 1; columns <= 200; ++columns) {
    Progress progress(out_, options(ProgressStyle::bar, columns));
    progress.begin_epoch(1, 2, 1000);
    time_ += 2;
    progress.update({500, 0.5, 0.75});
    EXPECT_LT(last_drawn().size(), static_cast<size_t>(std::max(columns, 1))) << columns;
  }
}

TEST_F(ProgressTest, TheEndOfAnEpochReplacesTheBarWithAPermanentLine) {
  Progress progress(out_, options(ProgressStyle::bar));
  progress.begin_epoch(2, 3, 1000);
  time_ += 1;
  progress.update({500, 0.5, {}});
  time_ += 1;
  progress.end_epoch({0.25, 0.9, 0.3, 0.88});
  EXPECT_EQ(
      last_drawn(),
      "epoch 2/3  loss 0.2500  accuracy 0.9000  validation loss 0.3000  validation accuracy 0.8800  500 images/s  2.0 s\n");
}

TEST_F(ProgressTest, AnOpenLineIsEndedBeforeAnErrorMessage) {
  {
    Progress progress(out_, options(ProgressStyle::bar));
    progress.begin_epoch(1, 1, 10);
    time_ += 1;
    progress.update({5, 0.5, {}});
    EXPECT_FALSE(out_.str().ends_with("\n"));
  }
  EXPECT_TRUE(out_.str().ends_with("\n"));
}

TEST_F(ProgressTest, PipedOutputHasAPlainLineEveryTenSeconds) {
  Progress progress(out_, options(ProgressStyle::lines));
  progress.begin_epoch(1, 1, 250);
  for (int i = 1; i <= 250; ++i) {
    time_ += 0.1;
    progress.update({i, 0.5, {}});
  }
  progress.end_epoch({0.25, {}, {}, {}});
  const std::string all = out_.str();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 3) << all;
  EXPECT_EQ(all.find_first_of("\r\x1b"), std::string::npos) << all;
  EXPECT_TRUE(all.ends_with("epoch 1/1  loss 0.2500  10 images/s  25.0 s\n")) << all;
}

TEST_F(ProgressTest, QuietPrintsNothing) {
  {
    Progress progress(out_, options(ProgressStyle::quiet));
    progress.begin_epoch(1, 1, 10);
    time_ += 100;
    progress.update({5, 0.5, {}});
    progress.message("checkpoint written");
    progress.end_epoch({});
  }
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressTest, AResumedEpochCountsOnlyItsOwnSamplesInTheSpeed) {
  Progress progress(out_, options(ProgressStyle::bar));
  progress.begin_epoch(1, 1, 1000, 800);
  time_ += 1;
  progress.update({900, 0.5, {}});
  EXPECT_NE(last_drawn().find(" 90%"), std::string::npos) << last_drawn();
  EXPECT_NE(last_drawn().find("  100 images/s  0:01 left"), std::string::npos) << last_drawn();
}

TEST_F(ProgressTest, UsesColourOnlyOnRequest) {
  auto chosen = options(ProgressStyle::bar);
  chosen.colour = true;
  Progress progress(out_, chosen);
  progress.begin_epoch(1, 1, 10);
  time_ += 1;
  progress.update({5, 0.5, {}});
  EXPECT_NE(out_.str().find("\x1b[32m["), std::string::npos);
}

TEST(ProgressOptions, APipeGetsLinesWithoutColour) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto chosen = progress_options(ends[1], false);
  EXPECT_EQ(chosen.style, ProgressStyle::lines);
  EXPECT_FALSE(chosen.colour);
  EXPECT_EQ(progress_options(ends[1], true).style, ProgressStyle::quiet);
  ::close(ends[0]);
  ::close(ends[1]);
}

/// Opens a terminal and sets environment variables; restores them at the end.
class OnATerminal : public testing::Test {
 protected:
  void SetUp() override {
    controller_ = ::posix_openpt(O_RDWR | O_NOCTTY);
    ASSERT_GE(controller_, 0);
    ASSERT_EQ(::grantpt(controller_), 0);
    ASSERT_EQ(::unlockpt(controller_), 0);
    terminal_ = ::open(::ptsname(controller_), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal_, 0);
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
  }
  void TearDown() override {
    ::close(terminal_);
    ::close(controller_);
    ::unsetenv("NO_COLOR");
  }
  int controller_ = -1;
  int terminal_ = -1;
};

TEST_F(OnATerminal, TheBarFillsTheWidth) {
  const struct winsize size = {24, 57, 0, 0};
  ASSERT_EQ(::ioctl(controller_, TIOCSWINSZ, &size), 0);
  const auto chosen = progress_options(terminal_, false);
  EXPECT_EQ(chosen.style, ProgressStyle::bar);
  EXPECT_TRUE(chosen.colour);
  EXPECT_EQ(chosen.columns(), 57);
}

TEST_F(OnATerminal, NoColorRemovesColourAndDumbRemovesTheBar) {
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(progress_options(terminal_, false).colour);
  EXPECT_EQ(progress_options(terminal_, false).style, ProgressStyle::bar);
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(progress_options(terminal_, false).style, ProgressStyle::lines);
}

TEST(ProgressText, FormatsNumbersAndDurations) {
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(duration_text(7.4), "0:07");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(7509), "2:05:09");
}

}  // namespace
}  // namespace telar
