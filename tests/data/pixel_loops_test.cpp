#include "telar/data/pictures/pixel_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace telar::test {
namespace {

TEST(PixelLoops, EveryByteOfAnyLengthIsScaled) {
  for (const size_t count : {0U, 1U, 15U, 16U, 17U, 784U, 1000U}) {
    std::vector<uint8_t> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(i * 7);
    std::vector<float> out(count, -1);
    scaled_bytes(bytes, 1.0F / 255, out);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(out[i], static_cast<float>(bytes[i]) * (1.0F / 255)) << i;
  }
}

TEST(PixelLoops, LumaIsThatOfEveryPixel) {
  for (const size_t pixels : {0U, 1U, 15U, 33U, 1000U}) {
    std::vector<uint8_t> rgb(3 * pixels);
    for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(i * 89);
    std::vector<uint8_t> grey(pixels, 1);
    luma_of_rgb(rgb, grey);
    for (size_t i = 0; i < pixels; ++i)
      EXPECT_NEAR(grey[i], 0.299 * rgb[3 * i] + 0.587 * rgb[3 * i + 1] + 0.114 * rgb[3 * i + 2], 0.51) << i;
  }
}

// A fused multiply-add would round only once, so CPUs that have it would produce other bits.
TEST(PixelLoops, ProductsAreRoundedBeforeTheShiftIsAdded) {
  constexpr float kScale = 1.0F / 0.3530F;
  constexpr float kShift = -0.2860F / 0.3530F;
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * (1.0F / 255);
  std::vector<float> wanted;
  for (const float value : values) {
    volatile float product = value * kScale;  // stored in memory and therefore rounded
    wanted.push_back(product + kShift);
  }
  scale_and_shift(values, kScale, kShift);
  EXPECT_EQ(values, wanted);
}

TEST(PixelLoops, FindsOneValueThatIsNotFiniteAtAnyPlace) {
  const std::vector<float> wrong = {NAN, -NAN, INFINITY, -INFINITY};
  for (const size_t count : {1U, 15U, 16U, 17U, 100U}) {
    std::vector<float> values(count, std::numeric_limits<float>::lowest());
    EXPECT_TRUE(all_finite(values));
    for (size_t i = 0; i < count; ++i) {
      const float right = std::exchange(values[i], wrong[i % wrong.size()]);
      EXPECT_FALSE(all_finite(values)) << i << " of " << count;
      values[i] = right;
    }
  }
  EXPECT_TRUE(all_finite({}));
}

TEST(PixelLoops, FindsOneValueThatIsNotBelowTheLimit) {
  std::vector<int32_t> values(37, 99);
  EXPECT_TRUE(all_below(values, 100));
  EXPECT_TRUE(all_below(values, int64_t{1} << 31));
  for (size_t i = 0; i < values.size(); ++i) {
    for (const int32_t wrong : {100, -1, std::numeric_limits<int32_t>::min()}) {
      const int32_t right = std::exchange(values[i], wrong);
      EXPECT_FALSE(all_below(values, 100)) << wrong;
      values[i] = right;
    }
  }
  EXPECT_TRUE(all_below({}, 0));
}

}  // namespace
}  // namespace telar::test
