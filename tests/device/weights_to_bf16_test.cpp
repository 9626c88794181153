#include "telar/device/cpu/weights_to_bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "telar/core/bf16.h"
#include "telar/core/dtype.h"
#include "telar/device/cpu/processor_support.h"

namespace telar::cpu {
namespace {

using Dims = dnnl::memory::dims;

/// Numbers of both signs, and special cases of rounding: halfway, infinite, NaN. (None is denormal: the CPU's
/// own conversion, which oneDNN may use, flushes those to zero.)
std::vector<float> weights(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i)) * 3.0F;
  const std::vector<float> special = {1.00390625F,
                                      1.01171875F,
                                      -1.00390625F,
                                      0.0F,
                                      -0.0F,
                                      3.4e38F,
                                      std::numeric_limits<float>::infinity(),
                                      std::numeric_limits<float>::quiet_NaN()};
  for (size_t i = 0; i < special.size(); ++i) values[(i * 37 + 5) % count] = special[i];
  return values;
}

/// Compares two conversions of the same weights: ours, into memory filled with ones, and oneDNN's reorder.
void expect_as_reordered(const Desc& from, const Desc& to, const WeightsToBf16& convert) {
  if (const std::string missing = bf16_missing(); !missing.empty()) GTEST_SKIP() << missing;
  ASSERT_TRUE(convert);
  std::vector<float> source = weights(from.get_size() / sizeof(float));
  std::vector<uint16_t> ours(to.get_size() / sizeof(uint16_t), 0xffff);
  std::vector<uint16_t> expected = ours;
  convert(source.data(), ours.data());
  dnnl::stream stream(engine());
  dnnl::memory x(from, engine(), source.data());
  dnnl::memory y(to, engine(), expected.data());
  dnnl::reorder(x, y).execute(stream, x, y);
  stream.wait();
  for (size_t i = 0; i < ours.size(); ++i) {
    const bool nan = std::isnan(from_bf16(expected[i]));
    if (nan) {
      ASSERT_TRUE(std::isnan(from_bf16(ours[i]))) << "element " << i;
    } else {
      ASSERT_EQ(ours[i], expected[i]) << "element " << i;
    }
  }
}

Desc f32(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::f32, tag}; }
Desc bf16(const Dims& dims, Tag tag) { return {dims, dnnl::memory::data_type::bf16, tag}; }

TEST(WeightsToBf16, AreThoseOfAReorder) {
  for (const Dims& dims : {Dims{16, 16, 1, 1}, Dims{32, 48, 3, 3}, Dims{128, 64, 3, 3}, Dims{64, 128, 1, 1},
                           Dims{16, 32, 5, 1}}) {
    const Desc from = f32(dims, Tag::OIhw16i16o);
    for (const Tag tag : {Tag::OIhw8i16o2i, Tag::OIhw8o16i2o, Tag::IOhw8o16i2o})
      expect_as_reordered(from, bf16(dims, tag), weights_to_bf16(from, bf16(dims, tag)));
  }
}

TEST(WeightsToBf16, OfGroups) {
  const Dims dims{3, 32, 16, 3, 3};
  const Desc from = f32(dims, Tag::gOIhw16i16o);
  for (const Tag tag : {Tag::gOIhw8i16o2i, Tag::gOIhw8o16i2o})
    expect_as_reordered(from, bf16(dims, tag), weights_to_bf16(from, bf16(dims, tag)));
}

TEST(WeightsToBf16, OfTheTapsThatAreRead) {
  const Desc whole = tap_by_tap(f32({32, 32, 1, 2}, Tag::OIhw16i16o), {3, 3});
  const Part part = part_of(whole, {32, 32, 2, 2}, {0, 0, 1, 1});
  const Desc to = bf16({32, 32, 2, 2}, Tag::OIhw8i16o2i);
  expect_as_reordered(part.desc, to, weights_to_bf16(part.desc, to));
}

TEST(WeightsToBf16, OtherLayoutsAreLeftToOneDnn) {
  const Dims dims{32, 32, 3, 3};
  const Desc from = f32(dims, Tag::OIhw16i16o);
  EXPECT_FALSE(weights_to_bf16(from, f32(dims, Tag::OIhw16o16i)));
  EXPECT_FALSE(weights_to_bf16(from, bf16(dims, Tag::oihw)));
  EXPECT_FALSE(weights_to_bf16(from, bf16(dims, Tag::OIhw16i16o)));
  EXPECT_FALSE(weights_to_bf16(f32(dims, Tag::oihw), bf16(dims, Tag::OIhw8i16o2i)));
  const Dims padded{10, 32, 3, 3};
  EXPECT_FALSE(weights_to_bf16(f32(padded, Tag::OIhw16i16o), bf16(padded, Tag::OIhw8i16o2i)));
}

}  // namespace
}  // namespace telar::cpu
