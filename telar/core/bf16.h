#pragma once

#include <bit>
#include <cstdint>

namespace telar {

/// The nearest bf16 number, rounded to even, in the upper half of the word; the lower half is undefined. NaN
/// stays NaN. (Without a branch, for loops with vector instructions.)
inline uint32_t rounded_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t nearest = bits + 0x7fffU + ((bits >> 16) & 1U);
  return (bits & 0x7fffffffU) > 0x7f800000U ? bits | 0x400000U : nearest;
}

/// Conversions between f32 and bf16 bits.
inline uint16_t to_bf16(float value) { return static_cast<uint16_t>(rounded_to_bf16(value) >> 16); }
inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace telar
