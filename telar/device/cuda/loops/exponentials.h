#pragma once

#include <cfloat>
#include <cmath>

#include "telar/device/cuda/loops/launch.h"

// Include only from files in this folder, like launch.h.
namespace telar::cuda {

/// The largest of some numbers and Σ exp(xᵢ − largest), found in one pass (Milakov and Gimelshein, "Online
/// normalizer calculation for softmax", 2018).
struct Exponentials {
  float largest;
  float sum;
};

/// For no numbers. `largest` is finite because the difference of infinities is NaN.
inline constexpr Exponentials kNoExponentials{-FLT_MAX, 0};

struct CombineExponentials {
  TELAR_GPU Exponentials operator()(const Exponentials& a, const Exponentials& b) const {
    const float higher = b.largest - a.largest;
    if (higher > 0) return {b.largest, a.sum * expf(-higher) + b.sum};
    return {a.largest, a.sum + b.sum * expf(higher)};
  }
};

}  // namespace telar::cuda
