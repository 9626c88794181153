#include "telar/train/drain_patience.h"

#include <gtest/gtest.h>

namespace telar {
namespace {

TEST(DrainPatience, LastsAsLongAsStepsAreCompleted) {
  DrainPatience patience;
  patience.begin();
  EXPECT_FALSE(patience.over(1000)) << "nobody stops the run";
  patience.drain(1000);
  EXPECT_FALSE(patience.over(1019));
  patience.step(1019, 2);
  EXPECT_FALSE(patience.over(1038)) << "the workers go on";
  EXPECT_TRUE(patience.over(1039));
  patience.begin();
  EXPECT_FALSE(patience.over(2000));
}

TEST(DrainPatience, IsTwentySecondsAndMoreForLongSteps) {
  DrainPatience patience;
  patience.step(0, 1);
  patience.drain(100);
  EXPECT_FALSE(patience.over(119));
  EXPECT_TRUE(patience.over(120));
  patience.begin();
  patience.step(200, 60);
  patience.drain(200);
  EXPECT_FALSE(patience.over(379));
  EXPECT_TRUE(patience.over(380));
}

}  // namespace
}  // namespace telar
