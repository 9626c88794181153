#include "telar/device/cuda/loops/random_normal.h"

#include <cmath>

#include "telar/device/cuda/loops/launch.h"
#include "telar/graph/ops/random_normal_rule.h"

namespace telar::cuda {

namespace {

constexpr float kStep = 0x1.0p-24F;
constexpr float kTurn = 6.2831853071795864769F;

/// Computes the pair of one block of a sample for each index (normal_pair() of telar/core/random.h).
struct DrawPair {
  uint64_t rule_stream;
  const int32_t* sample;
  const int32_t* random;
  float* y;
  int64_t per_sample;
  int64_t blocks;  // in a sample

  TELAR_GPU void operator()(int64_t i) const {
    const NormalRule rule(rule_stream, random);
    const int64_t n = i / blocks;
    const int64_t block = i - n * blocks;
    const auto words = rule.philox(rule.counter(static_cast<uint64_t>(block), sample + 2 * n));
    const float radius = sqrtf(-2.0F * logf((static_cast<float>(words[0] >> 8U) + 1.0F) * kStep));
    const float angle = kTurn * (static_cast<float>(words[1] >> 8U) * kStep);
    float* place = y + n * per_sample + 2 * block;
    place[0] = radius * cosf(angle);
    if (2 * block + 1 < per_sample) place[1] = radius * sinf(angle);
  }
};

}  // namespace

cudaError_t draw_normal(uint64_t rule_stream, const int32_t* sample, const int32_t* random, float* y,
                        int64_t samples, int64_t per_sample, cudaStream_t stream) {
  const int64_t blocks = (per_sample + 1) / 2;
  return for_each(samples * blocks, stream, DrawPair{rule_stream, sample, random, y, per_sample, blocks});
}

}  // namespace telar::cuda
