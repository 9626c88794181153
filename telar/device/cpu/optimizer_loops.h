#pragma once

#include <cstdint>

namespace telar::cpu {

/// One element-wise pass of an optimizer over flat memory. Formulas and sources: telar/graph/ops/update.h. The
/// gradient sum is multiplied by `scale` (clip factor / samples) before anything else.

struct SgdLoop {
  float learning_rate, scale, momentum, weight_decay;
  bool nesterov, first;
};
void sgd_plain(const SgdLoop& loop, float* p, const float* g, int64_t count);
void sgd_momentum(const SgdLoop& loop, float* p, const float* g, float* m, int64_t count);

struct AdamLoop {
  float learning_rate, scale, beta1, beta2, epsilon, weight_decay;
  float correction1, correction2_root;  ///< 1 − beta1^t and √(1 − beta2^t)
  bool decoupled;
};
void adam(const AdamLoop& loop, float* p, const float* g, float* m, float* v, int64_t count);

struct RmspropLoop {
  float learning_rate, scale, alpha, epsilon, momentum, weight_decay;
};
void rmsprop_plain(const RmspropLoop& loop, float* p, const float* g, float* s, int64_t count);
void rmsprop_momentum(const RmspropLoop& loop, float* p, const float* g, float* s, float* b, int64_t count);

struct AdagradLoop {
  float learning_rate;  ///< already lowered by lr_decay
  float scale, epsilon, weight_decay;
};
void adagrad(const AdagradLoop& loop, float* p, const float* g, float* s, int64_t count);

void running_average(float momentum, float scale, float* p, const float* g, int64_t count);

/// No NaN and no infinity among them.
bool all_finite(const float* g, int64_t count);

double sum_of_squares(const float* g, int64_t count);

}  // namespace telar::cpu
