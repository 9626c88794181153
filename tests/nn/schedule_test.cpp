#include "telar/nn/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "telar/core/error.h"

namespace telar {
namespace {

TEST(Schedule, ConstantIsTheBaseRateAtEveryStep) {
  const Schedule schedule{.base = 0.3};
  for (const int64_t step : {1, 2, 1000000}) EXPECT_EQ(learning_rate(schedule, step), 0.3);
}

TEST(Schedule, MilestonesCountCompletedSteps) {
  const Schedule schedule{.base = 1, .shape = StepSchedule{.milestones = {10, 20}, .gamma = 0.1}};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 10), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 11), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 20), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 21), 0.01);
}

TEST(Schedule, EveryDropsRepeatedly) {
  const Schedule schedule{.base = 8, .shape = StepSchedule{.every = 5, .gamma = 0.5}};
  for (int64_t step = 1; step <= 40; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 8 * std::pow(0.5, (step - 1) / 5)) << step;
  }
}

TEST(Schedule, ExponentialAndInverseTimeFallALittleInEachStepAndHaveNoLastOne) {
  const Schedule exponential{.base = 8, .shape = ExponentialSchedule{.gamma = 0.5, .every = 4}};
  EXPECT_DOUBLE_EQ(learning_rate(exponential, 1), 8);
  EXPECT_DOUBLE_EQ(learning_rate(exponential, 3), 8 / std::numbers::sqrt2);
  EXPECT_DOUBLE_EQ(learning_rate(exponential, 5), 4);
  EXPECT_DOUBLE_EQ(learning_rate(exponential, 13), 1);
  const Schedule inverse{.base = 6, .shape = InverseTimeSchedule{.decay = 2, .every = 10}};
  EXPECT_DOUBLE_EQ(learning_rate(inverse, 1), 6);
  EXPECT_DOUBLE_EQ(learning_rate(inverse, 6), 3);
  EXPECT_DOUBLE_EQ(learning_rate(inverse, 11), 2);
  EXPECT_DOUBLE_EQ(learning_rate(inverse, 1'000'000'001), 6 / (1 + 2e8));
}

TEST(Schedule, CosineFallsFromBaseToMinimum) {
  const Schedule schedule{.base = 2, .shape = CosineSchedule{.minimum = 0.5}, .total_steps = 8};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 3), 0.5 + 1.5 * (1 + std::numbers::sqrt2 / 2) / 2);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 1.25);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1000), 0.5);
}

TEST(Schedule, WarmupRisesLinearlyAndReachesTheBaseRate) {
  Schedule schedule{.base = 1, .shape = CosineSchedule{}, .warmup_steps = 4, .total_steps = 12};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 2), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 4), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 1);    // the cosine begins
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 9), 0.5);  // halfway through the 8 steps after the warm-up
  EXPECT_NEAR(learning_rate(schedule, 13), 0, 1e-15);
  schedule.shape = StepSchedule{.milestones = {6}, .gamma = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 6), 1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 7), 0.1);  // milestones count from the start of training
}

// Goyal et al. (2017), section 2.2: the rate rises from that of one worker to k times that in equal steps.
TEST(Schedule, WarmupCanStartAboveZero) {
  const Schedule schedule{.base = 0.8, .warmup_steps = 4, .warmup_from = 0.1};
  for (int64_t step = 1; step <= 4; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule, step), 0.1 + 0.7 * static_cast<double>(step) / 4);
  }
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 5), 0.8);
}

TEST(Schedule, EpochsBecomeWholeSteps) {
  EXPECT_EQ(steps_of_epochs(2, 469), 938);
  EXPECT_EQ(steps_of_epochs(0.5, 469), 235);
  EXPECT_EQ(steps_of_epochs(0, 469), 0);
}

TEST(Schedule, RefusesStepZeroAndACosineWithoutAnEnd) {
  EXPECT_THROW(learning_rate({}, 0), Error);
  EXPECT_THROW(learning_rate({.shape = CosineSchedule{}}, 1), Error);
  EXPECT_THROW(learning_rate({.shape = CosineSchedule{}, .warmup_steps = 10, .total_steps = 10}, 11), Error);
}

}  // namespace
}  // namespace telar
