#include "telar/device/cpu/sum_loops.h"

#include "telar/core/simd.h"

namespace telar::cpu {

TELAR_FOR_EACH_CPU
float sum_of(const float* x, int64_t count) {
  // Independent sums: enough for the adders of any CPU, with little rounding.
  constexpr int64_t kLanes = 64;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  for (int64_t lane = 0; i < count; ++i, ++lane) lanes[lane] += x[i];
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

}  // namespace telar::cpu
