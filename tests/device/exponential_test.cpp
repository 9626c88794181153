#include "telar/device/cpu/kernels/common/exponential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace telar::cpu {
namespace {

TEST(Exponential, IsThatOfDoublesToTwoUnitsInTheLastPlace) {
  for (float x = -87; x <= 88; x += 0.000731F) {
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(exponential(x) / expected, 1, 2.4e-7) << x;
  }
  EXPECT_EQ(exponential(0), 1);
}

TEST(Exponential, OfFarLessIsZeroAndOfNanIsNan) {
  EXPECT_EQ(exponential(-87.5F), 0);
  EXPECT_EQ(exponential(-std::numeric_limits<float>::max()), 0);
  EXPECT_EQ(exponential(-std::numeric_limits<float>::infinity()), 0);
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace telar::cpu
