#include "telar/device/cpu/sum_loops.h"

#include <algorithm>
#include <array>

#include "telar/core/bf16.h"
#include "telar/core/simd.h"

namespace telar::cpu {

namespace {

inline float value_of(float x) { return x; }
inline float value_of(uint16_t x) { return from_bf16(x); }

/// In blocks, so that rounding does not grow with the number of rows.
template <typename T>
[[gnu::always_inline]] inline void add_columns_of(const T* x, const RowsAndColumns& of, float* y) {
  constexpr int64_t kColumns = 256;
  constexpr int64_t kRows = 128;
  for (int64_t j = 0; j < of.columns; j += kColumns) {
    const int64_t width = std::min(kColumns, of.columns - j);
    for (int64_t i = 0; i < of.rows; i += kRows) {
      std::array<float, kColumns> sums = {};
      for (int64_t row = i; row < std::min(i + kRows, of.rows); ++row) {
        const T* values = x + row * of.step + j;
        for (int64_t column = 0; column < width; ++column) sums[column] += value_of(values[column]);
      }
      for (int64_t column = 0; column < width; ++column) y[j + column] += sums[column];
    }
  }
}

}  // namespace

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

TELAR_FOR_EACH_CPU
void add_columns(const float* x, const RowsAndColumns& of, float* y) { add_columns_of(x, of, y); }

TELAR_FOR_EACH_CPU
void add_columns(const uint16_t* x, const RowsAndColumns& of, float* y) { add_columns_of(x, of, y); }

}  // namespace telar::cpu
