#pragma once

#include <cstdint>

#include "telar/device/update_rules.h"

namespace telar::cpu {

/// Optimizer passes (telar/device/update_rules.h) over flat memory.

void sgd_plain(const SgdRule& rule, float* p, const float* g, int64_t count);
void sgd_momentum(const SgdRule& rule, float* p, const float* g, float* m, int64_t count);

void adam(const AdamRule& rule, float* p, const float* g, float* m, float* v, int64_t count);

void rmsprop_plain(const RmspropRule& rule, float* p, const float* g, float* s, int64_t count);
void rmsprop_momentum(const RmspropRule& rule, float* p, const float* g, float* s, float* b, int64_t count);

void adagrad(const AdagradRule& rule, float* p, const float* g, float* s, int64_t count);

void running_average(const RunningAverageRule& rule, float* p, const float* g, int64_t count);

/// Whether all numbers are finite.
bool all_finite(const float* g, int64_t count);

double sum_of_squares(const float* g, int64_t count);

}  // namespace telar::cpu
