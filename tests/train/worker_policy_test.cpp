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
      // A worker works a second after it was asked for.
      working_ = dead_ > 0 ? std::min(wanted, working_) : wanteds[wanteds.size() - 2];
      working_ = std::min(working_, wanted);
      if (dead_ > 0 && --dead_ == 0) working_ = wanted;
    }
  }
  void kill(int for_seconds) {
    --working_;
    dead_ = for_seconds;
  }
  void backlog(double messages) { arrived_ += messages; }

  double busy = 1;  ///< of the time of a step that its workers report: the rest is reading
  std::vector<double> lags;
  std::vector<int64_t> wanteds = {1};
  std::vector<int> changes;

 private:
  WorkerPolicy policy_;
  WorkerLoadMeter meter_;
  int64_t working_;
  int dead_ = 0;
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

/// Their steps seem to be three times as fast as they are.
TEST(WorkerPolicy, WorkersThatReadForLongAreJudgedByWhatTheyDo) {
  Simulation simulation({.min = 1, .max = 8, .lag_seconds = 5});
  simulation.busy = 0.3;
  simulation.run(60, [](int) { return 250.0; });
  EXPECT_GE(simulation.wanteds.back(), 3);
  EXPECT_LT(worst(simulation.lags, 30, 60), 5);
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
