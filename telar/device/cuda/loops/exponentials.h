#pragma once

#include <cfloat>
#include <cmath>

#include "telar/device/cuda/loops/launch.h"

// Included by the files in this folder alone, like launch.h.
namespace telar::cuda {

/// Σ exp(xᵢ − largest) of some numbers and the largest of them, found in one pass (Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018).
struct Exponentials {
  float largest;
  float sum;
};

/// Of no number. A finite "largest": infinities would have no difference.
inline constexpr Exponentials kNoExponentials{-FLT_MAX, 0};

struct CombineExponentials {
  TELAR_GPU Exponentials operator()(const Exponentials& a, const Exponentials& b) const {
    const float higher = b.largest - a.largest;
    if (higher > 0) return {b.largest, a.sum * expf(-higher) + b.sum};
    return {a.largest, a.sum + b.sum * expf(higher)};
  }
};

}  // namespace telar::cuda
