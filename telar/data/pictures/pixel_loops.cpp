#include "telar/data/pictures/pixel_loops.h"

#include <algorithm>
#include <bit>

#include "telar/core/simd.h"

namespace telar {

namespace {

TELAR_FOR_EACH_CPU
void scale_bytes(const uint8_t* __restrict bytes, float scale, float* __restrict out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(bytes[i]) * scale;
}

TELAR_FOR_EACH_CPU
void shift_values(float* values, float scale, float shift, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = values[i] * scale + shift;
}

/// The largest magnitude, as bits: those of infinity and NaN are above all others.
TELAR_FOR_EACH_CPU
uint32_t largest_bits(const float* values, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffU);
  return largest;
}

/// Negative values are above all others.
TELAR_FOR_EACH_CPU
uint32_t largest_unsigned(const int32_t* values, size_t count) {
  uint32_t largest = 0;
  for (size_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<uint32_t>(values[i]));
  return largest;
}

TELAR_FOR_EACH_CPU
void luma(const uint8_t* __restrict rgb, uint8_t* __restrict grey, size_t pixels) {
  constexpr unsigned kHalf = 1U << 15U;
  for (size_t i = 0; i < pixels; ++i)
    grey[i] = static_cast<uint8_t>(
        (19595U * rgb[3 * i] + 38470U * rgb[3 * i + 1] + 7471U * rgb[3 * i + 2] + kHalf) >> 16U);
}

}  // namespace

void luma_of_rgb(std::span<const uint8_t> rgb, std::span<uint8_t> grey) {
  luma(rgb.data(), grey.data(), grey.size());
}

void scaled_bytes(std::span<const uint8_t> bytes, float scale, std::span<float> out) {
  scale_bytes(bytes.data(), scale, out.data(), out.size());
}

void scale_and_shift(std::span<float> values, float scale, float shift) {
  shift_values(values.data(), scale, shift, values.size());
}

bool all_finite(std::span<const float> values) {
  constexpr uint32_t kInfinity = 0x7f800000;
  return largest_bits(values.data(), values.size()) < kInfinity;
}

bool all_below(std::span<const int32_t> values, int64_t limit) {
  return values.empty() || largest_unsigned(values.data(), values.size()) < limit;
}

}  // namespace telar
