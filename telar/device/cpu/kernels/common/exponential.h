#pragma once

#include <bit>
#include <cstdint>

namespace telar::cpu {

/// eˣ for loops with vector instructions: x = n · log 2 + r with |r| ≤ ½ log 2; eʳ by the polynomial of
/// Cephes' expf (Moshier, 1992), times 2ⁿ. For x ≤ 88; below −87 the result is 0. NaN stays NaN.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kLeast = -87.0F;
  constexpr float kRounding = 12582912.0F;  // 1.5 · 2²³: adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504088896341F + kRounding;
  const float n = shifted - kRounding;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float y = p * r * r + r + 1.0F;
  const auto power = (std::bit_cast<uint32_t>(shifted) << 23U) + 0x3f800000U;
  return x < kLeast ? 0.0F : y * std::bit_cast<float>(power);
}

}  // namespace telar::cpu
