#include "telar/device/cpu/kernels/common/logarithm.h"

#include <bit>
#include <limits>

#include "telar/core/simd.h"

namespace telar::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// x = m · 2ᵉ with √½ ≤ m < √2; log m by the polynomial of Cephes' logf (Moshier, 1992), plus e · log 2 in
/// two parts. Without branches, so that the compiler vectorises the loop.
inline float logarithm(float x) {
  const bool tiny = x < std::numeric_limits<float>::min();
  const float normal = tiny ? x * 0x1.0p23F : x;
  const auto bits = std::bit_cast<uint32_t>(normal);
  const auto exponent = static_cast<int32_t>((bits >> 23U) & 0xffU) - (tiny ? 126 + 23 : 126);
  const float half = std::bit_cast<float>((bits & 0x007fffffU) | 0x3f000000U);  // ½ ≤ half < 1
  const bool low = half < 0.707106781186547524F;
  const float e = static_cast<float>(exponent) - (low ? 1.0F : 0.0F);
  const float m = (low ? half + half : half) - 1.0F;
  const float z = m * m;
  float p = 7.0376836292e-2F;
  p = p * m - 1.1514610310e-1F;
  p = p * m + 1.1676998740e-1F;
  p = p * m - 1.2420140846e-1F;
  p = p * m + 1.4249322787e-1F;
  p = p * m - 1.6668057665e-1F;
  p = p * m + 2.0000714765e-1F;
  p = p * m - 2.4999993993e-1F;
  p = p * m + 3.3333331174e-1F;
  const float y = p * m * z - 2.12194440e-4F * e - 0.5F * z;
  const float finite = m + y + 0.693359375F * e;
  const float special = x == 0.0F        ? -kInfinity
                        : x == kInfinity ? kInfinity
                                         : std::numeric_limits<float>::quiet_NaN();
  return x > 0.0F && x < kInfinity ? finite : special;
}

}  // namespace

TELAR_FOR_EACH_CPU
void logarithms(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = logarithm(x[i]);
}

}  // namespace telar::cpu
