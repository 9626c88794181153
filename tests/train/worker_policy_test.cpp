#include "telar/train/worker_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace telar {
namespace {

constexpr double kRateOfOne = 100;  // messages/s of a simulated worker

/// A topic with workers of constant speed, in steps of a second.
class Simulation {
 public:
  explicit Simulation(ElasticWorkers limits) : policy_(limits), working_(limits.min) {}

  /// `rate`: messages/s that arrive, by time.
  void run(int seconds, const std::function<double(int)>& rate) {
    for (int i = 0; i < seconds; ++i, ++time_) {
      const double arrives = rate(time_);
      arrived_ += arrives;
      const double done = std::min(arrived_ - done_, static_cast<double>(working_) * kRateOfOne);
      done_ += done;
      meter_.done(static_cast<int64_t>(done), done / kRateOfOne * busy);
      const WorkerLoad load =
          meter_.measure(time_, static_cast<int64_t>(arrived_), static_cast<int64_t>(arrived_ - done_),
                         working_, arrived_ > done_);
      lags.push_back(load.lag_seconds());
      const int64_t wanted = policy_.decide(load);
      if (wanted != wanteds.back()) changes.push_back(time_);
      wanteds.push_back(wanted);
      have(wanted);
    }
  }
  void kill(int for_seconds) {
    --working_;
    starting_.push_back(time_ + for_seconds);
  }
  void backlog(double messages) { arrived_ += messages; }

  double busy = 1;  ///< of the time of a step that its workers report: the rest is reading
  int start = 1;    ///< the seconds until a new worker works
  std::vector<double> lags;
  std::vector<int64_t> wanteds = {1};
  std::vector<int> changes;

 private:
  void have(int64_t wanted) {
    while (working_ + std::ssize(starting_) < wanted) starting_.push_back(time_ + 1 + start);
    while (working_ + std::ssize(starting_) > wanted) {
      if (starting_.empty()) {
        --working_;
      } else {
        starting_.pop_back();
      }
    }
    working_ += static_cast<int64_t>(std::erase_if(starting_, [&](int at) { return at <= time_ + 1; }));
  }

  WorkerPolicy policy_;
  WorkerLoadMeter meter_;
  int64_t working_;
  std::vector<int> starting_;  ///< when further workers begin to work
  int time_ = 0;
  double arrived_ = 0;
  double done_ = 0;
};

double worst(const std::vector<double>& lags, int first, int end) {
  return *std::max_element(lags.begin() + first, lags.begin() + end);
}

TEST(WorkerPolicy, ALoadThatWorkersKeepUpWithChangesNothing) {
  Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
  simulation.run(100, [](int) { return 60.0; });
  EXPECT_TRUE(simulation.changes.empty());
}

TEST(WorkerPolicy, TheLagReturnsBelowItsLimitAfterTheLoadDoubles) {
  for (const double rate : {60.0, 180.0, 350.0}) {
    Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
    simulation.run(60, [&](int) { return rate; });
    simulation.run(60, [&](int) { return 2 * rate; });
    EXPECT_LT(worst(simulation.lags, 75, 120), 5) << rate;
    EXPECT_GE(static_cast<double>(simulation.wanteds.back()) * kRateOfOne, 2 * rate);
  }
}

TEST(WorkerPolicy, WorkersLeaveWithinAMinuteAfterTheLoadHasFallen) {
  Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
  simulation.run(60, [](int) { return 700.0; });
  EXPECT_GE(simulation.wanteds.back(), 7);
  simulation.run(60, [](int) { return 10.0; });
  EXPECT_EQ(simulation.wanteds.back(), 1);
  EXPECT_LT(worst(simulation.lags, 75, 120), 5);
}

TEST(WorkerPolicy, ALoadThatRisesAndFallsKeepsTheNumberForItsPeaks) {
  Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
  simulation.run(400, [](int second) { return second / 5 % 2 == 0 ? 400.0 : 40.0; });
  const auto late = std::ranges::count_if(simulation.changes, [](int at) { return at > 100; });
  EXPECT_EQ(late, 0) << "changes in five minutes";
  EXPECT_LT(worst(simulation.lags, 100, 400), 5);
}

TEST(WorkerPolicy, AWorkerThatDiesAndComesBackCallsForNoOther) {
  Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
  simulation.run(100, [](int) { return 250.0; });
  const int64_t before = simulation.wanteds.back();
  simulation.kill(2);
  simulation.run(30, [](int) { return 250.0; });
  EXPECT_EQ(simulation.wanteds.back(), before);
}

TEST(WorkerPolicy, ATopicWithManyMessagesAtTheStartGetsWorkersInSteps) {
  Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
  simulation.backlog(8000);
  simulation.run(40, [](int) { return 50.0; });
  for (size_t i = 1; i < simulation.wanteds.size(); ++i)
    EXPECT_LE(simulation.wanteds[i], 2 * simulation.wanteds[i - 1]);
  EXPECT_EQ(*std::ranges::max_element(simulation.wanteds), 8);
  EXPECT_LT(simulation.lags.back(), 5);
}

TEST(WorkerPolicy, LimitsAreKept) {
  Simulation simulation({.min = 2, .max = 3, .lag_seconds = 1});
  simulation.run(60, [](int second) { return second < 30 ? 5000.0 : 0.0; });
  EXPECT_EQ(*std::ranges::max_element(simulation.wanteds), 3);
  simulation.run(2000, [](int) { return 0.0; });
  EXPECT_EQ(simulation.wanteds.back(), 2);
}

TEST(WorkerPolicy, WithoutAMeasurementNothingIsDecided) {
  WorkerPolicy policy({.min = 1, .max = 8, .lag_seconds = 5});
  EXPECT_EQ(policy.decide({.now = 1, .lag = 1'000'000, .arriving = 1e6, .working = 1}), 1);
}

/// Steps that seem to be three times as fast as they are, and workers that take long to start.
TEST(WorkerPolicy, ASteadyLoadSettles) {
  for (const double busy : {1.0, 0.7, 0.3})
    for (const int start : {1, 4, 8})
      for (const double rate : {60.0, 150.0, 250.0, 520.0}) {
        Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
        simulation.busy = busy;
        simulation.start = start;
        simulation.run(400, [&](int) { return rate; });
        const std::vector<int>& changes = simulation.changes;
        EXPECT_LE(changes.size(), 5U) << busy << " " << start << " " << rate;
        EXPECT_TRUE(changes.empty() || changes.back() < 100) << busy << " " << start << " " << rate;
        EXPECT_LT(worst(simulation.lags, 100, 400), 5) << busy << " " << start << " " << rate;
        EXPECT_LE(static_cast<double>(simulation.wanteds.back() - 1) * kRateOfOne * 0.7, rate)
            << "more than are needed with a margin";
      }
}

TEST(WorkerPolicy, WorkersThatOnlyStartAreNoReasonToAskForMore) {
  Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
  simulation.start = 8;
  simulation.run(60, [](int) { return 150.0; });
  EXPECT_LE(*std::ranges::max_element(simulation.wanteds), 3);
}

TEST(WorkerPolicy, WhileNobodyWorksTheNumberStays) {
  WorkerPolicy policy({.min = 1, .max = 8, .lag_seconds = 5});
  EXPECT_EQ(policy.decide({.now = 1, .lag = 1000, .arriving = 100, .of_one = 100, .working = 1}), 2);
  for (int second = 2; second < 60; ++second)
    EXPECT_EQ(policy.decide({.now = 1.0 * second, .lag = 1000, .of_one = 100, .working = 0}), 2);
}

TEST(WorkerPolicy, WorkersThatReadForLongAreJudgedByWhatTheyDo) {
  WorkerLoadMeter meter;
  int second = 0;
  const auto works = [&](int64_t working, bool steps_wait, int seconds) {
    WorkerLoad load;
    for (int i = 0; i < seconds; ++i, ++second) {
      meter.done(50 * working, 0.25 * static_cast<double>(working));
      load = meter.measure(second, 1000 * second, 100, working, steps_wait);
    }
    return load.of_one;
  };
  EXPECT_NEAR(works(1, false, 10), 200, 1e-9) << "as far as is known";
  EXPECT_NEAR(works(1, true, 5), 50, 1e-9);
  EXPECT_NEAR(works(1, false, 10), 50, 1e-9) << "that is remembered";
  EXPECT_NEAR(works(2, true, 10), 50, 1e-9);
  EXPECT_NEAR(works(4, true, 2), 50, 1e-9) << "what fewer have done says nothing about more";
}

TEST(WorkerPolicy, MessagesThatWaitForAFullBatchCallForNobody) {
  WorkerPolicy policy({.min = 1, .max = 8, .lag_seconds = 5});
  WorkerLoadMeter meter;
  for (int second = 0; second < 100; ++second) {
    // 10 messages arrive in a second, and each batch has 128.
    if (second % 13 == 12) meter.done(128, 0.5);
    const WorkerLoad load = meter.measure(second, 10 * second, 10 * (second % 13), 1, false);
    EXPECT_LT(load.lag_seconds(), 1);
    EXPECT_EQ(policy.decide(load), 1);
  }
}

}  // namespace
}  // namespace telar
