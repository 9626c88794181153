#include "telar/data/pixel_loops.h"

#include <gtest/gtest.h>

#include <cstdint>
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

}  // namespace
}  // namespace telar::test
