#include "telar/runtime/mixed_speed.h"

#include <gtest/gtest.h>

namespace telar {
namespace {

TEST(MixedSpeed, ComparesWithTheGpusAloneOnTheWholeBatch) {
  MixedSpeedMeter meter({true, false, true});
  ASSERT_TRUE(meter.mixed());
  for (int step = 0; step < 3; ++step)
    meter.record({8, 8, 8}, {100, 100, 100}, 100);  // the first steps compile, and do not count
  EXPECT_FALSE(meter.speed());
  // The GPUs process 2000 and 1000 samples/s: 75 samples in 25 ms.
  for (int step = 0; step < 5; ++step) meter.record({40, 15, 20}, {0.02, 0.05, 0.02}, 0.06);
  ASSERT_TRUE(meter.speed());
  EXPECT_DOUBLE_EQ(meter.speed()->together, 0.06);
  EXPECT_DOUBLE_EQ(meter.speed()->gpus_alone, 0.025);
}

TEST(MixedSpeed, IsEmptyWithoutBothKinds) {
  for (const std::vector<bool>& devices : {std::vector<bool>{true, true}, {false}}) {
    MixedSpeedMeter meter(devices);
    EXPECT_FALSE(meter.mixed());
    for (int step = 0; step < 9; ++step) meter.record({1, 1}, {1, 1}, 1);
    EXPECT_FALSE(meter.speed());
  }
}

}  // namespace
}  // namespace telar
