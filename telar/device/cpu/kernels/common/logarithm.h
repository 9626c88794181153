#pragma once

#include <cstdint>

namespace telar::cpu {

/// y[i] = log x[i], within 2 units in the last place; −∞ of 0, NaN of numbers below 0. y may be x.
void logarithms(const float* x, float* y, int64_t count);

}  // namespace telar::cpu
