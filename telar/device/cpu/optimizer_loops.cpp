#include "telar/device/cpu/optimizer_loops.h"

#include <cmath>

#include "telar/core/simd.h"

namespace telar::cpu {

TELAR_FOR_EACH_CPU
void sgd_plain(const SgdRule& rule, float* __restrict p, const float* __restrict g, int64_t count) {
  const SgdRule k = rule;
  for (int64_t i = 0; i < count; ++i) p[i] -= k.learning_rate * (g[i] * k.scale + k.weight_decay * p[i]);
}

TELAR_FOR_EACH_CPU
void sgd_momentum(const SgdRule& rule, float* __restrict p, const float* __restrict g, float* __restrict m,
                  int64_t count) {
  const SgdRule k = rule;
  const float kept = k.first ? 0.0F : k.momentum;
  const float from_gradient = k.nesterov ? 1.0F : 0.0F;
  const float from_momentum = k.nesterov ? k.momentum : 1.0F;
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale + k.weight_decay * p[i];
    m[i] = kept * m[i] + gradient;
    p[i] -= k.learning_rate * (from_gradient * gradient + from_momentum * m[i]);
  }
}

TELAR_FOR_EACH_CPU
void adam(const AdamRule& rule, float* __restrict p, const float* __restrict g, float* __restrict m,
          float* __restrict v, int64_t count) {
  const AdamRule k = rule;
  const float step = k.learning_rate / k.correction1;
  const float inverse_root = 1.0F / k.correction2_root;
  const float coupled_decay = k.decoupled ? 0.0F : k.weight_decay;
  const float shrink = k.decoupled ? 1.0F - k.learning_rate * k.weight_decay : 1.0F;
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale + coupled_decay * p[i];
    m[i] = k.beta1 * m[i] + (1.0F - k.beta1) * gradient;
    v[i] = k.beta2 * v[i] + (1.0F - k.beta2) * gradient * gradient;
    p[i] = shrink * p[i] - step * m[i] / (std::sqrt(v[i]) * inverse_root + k.epsilon);
  }
}

TELAR_FOR_EACH_CPU
void rmsprop_plain(const RmspropRule& rule, float* __restrict p, const float* __restrict g,
                   float* __restrict s, int64_t count) {
  const RmspropRule k = rule;
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale + k.weight_decay * p[i];
    s[i] = k.alpha * s[i] + (1.0F - k.alpha) * gradient * gradient;
    p[i] -= k.learning_rate * gradient / (std::sqrt(s[i] + k.epsilon_in_root) + k.epsilon);
  }
}

TELAR_FOR_EACH_CPU
void rmsprop_momentum(const RmspropRule& rule, float* __restrict p, const float* __restrict g,
                      float* __restrict s, float* __restrict b, int64_t count) {
  const RmspropRule k = rule;
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale + k.weight_decay * p[i];
    s[i] = k.alpha * s[i] + (1.0F - k.alpha) * gradient * gradient;
    const float step = k.rate_in_momentum * gradient / (std::sqrt(s[i] + k.epsilon_in_root) + k.epsilon);
    b[i] = k.momentum * b[i] + step;
    p[i] -= k.learning_rate * b[i];
  }
}

TELAR_FOR_EACH_CPU
void adagrad(const AdagradRule& rule, float* __restrict p, const float* __restrict g, float* __restrict s,
             int64_t count) {
  const AdagradRule k = rule;
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] * k.scale + k.weight_decay * p[i];
    s[i] += gradient * gradient;
    p[i] -= k.learning_rate * gradient / (std::sqrt(s[i]) + k.epsilon);
  }
}

TELAR_FOR_EACH_CPU
void running_average(const RunningAverageRule& rule, float* __restrict p, const float* __restrict g,
                     int64_t count) {
  const RunningAverageRule k = rule;
  for (int64_t i = 0; i < count; ++i) p[i] = (1.0F - k.momentum) * p[i] + k.momentum * (g[i] * k.scale);
}

TELAR_FOR_EACH_CPU
bool all_finite(const float* g, int64_t count) {
  const auto* bits = reinterpret_cast<const int32_t*>(g);
  int32_t bad = 0;  // tests exponent bits: an integer OR vectorises, a float comparison may not
  for (int64_t i = 0; i < count; ++i) bad |= (bits[i] & 0x7f800000) == 0x7f800000 ? 1 : 0;
  return bad == 0;
}

TELAR_FOR_EACH_CPU
double sum_of_squares(const float* g, int64_t count) {
  // Independent sums in a fixed order: vectorises, and the bits do not depend on the vector width.
  constexpr int kLanes = 16;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(g[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace telar::cpu
