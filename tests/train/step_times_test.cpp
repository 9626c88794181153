#include "telar/train/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace telar {
namespace {

TEST(StepTimes, OfManyStepsTheLastOnesAreKeptAndAllAreCounted) {
  StepTimes times;
  constexpr auto kSteps = static_cast<int64_t>(5 * StepTimes::kKept + 7);
  const PhaseTimes phases{};
  for (int64_t step = 0; step < kSteps; ++step) {
    times.add(0.25, {.exposed = static_cast<double>(step)}, &phases);
    const size_t kept = times.kept_seconds().size();
    ASSERT_EQ(times.communication().size(), kept);
    ASSERT_EQ(times.phases().size(), kept);
    ASSERT_LE(kept, 2 * StepTimes::kKept);
    ASSERT_GE(kept, std::min(static_cast<size_t>(step) + 1, StepTimes::kKept));
    ASSERT_EQ(times.communication().back().exposed, static_cast<double>(step));
  }
  EXPECT_EQ(times.steps(), kSteps);
  EXPECT_DOUBLE_EQ(times.seconds(), 0.25 * static_cast<double>(kSteps));
  EXPECT_EQ(times.communication().front().exposed,
            static_cast<double>(kSteps) - static_cast<double>(times.communication().size()));
}

}  // namespace
}  // namespace telar
