#include "telar/device/cpu/bf16_loops.h"

#include <cstring>

#include "telar/core/bf16.h"
#include "telar/core/simd.h"

namespace telar::cpu {

namespace {

constexpr int kSide = 16;

/// Two adjacent numbers in memory, `first` first.
inline uint32_t pair(uint32_t first, uint32_t second) { return (first >> 16) | (second & 0xffff0000U); }

}  // namespace

TELAR_FOR_EACH_CPU
void rows_in_pairs(const float* from, uint16_t* to, BlockSteps steps, int64_t count) {
  for (int64_t block = 0; block < count; ++block, from += steps.from, to += steps.to) {
    uint32_t pairs[kSide / 2][kSide];
    for (int k = 0; k < kSide / 2; ++k) {
      const float* upper = from + 2 * k * kSide;
      for (int column = 0; column < kSide; ++column)
        pairs[k][column] = pair(rounded_to_bf16(upper[column]), rounded_to_bf16(upper[kSide + column]));
    }
    std::memcpy(to, pairs, sizeof(pairs));
  }
}

TELAR_FOR_EACH_CPU
void columns_in_pairs(const float* from, uint16_t* to, BlockSteps steps, int64_t count) {
  for (int64_t block = 0; block < count; ++block, from += steps.from, to += steps.to) {
    uint32_t numbers[kSide][kSide];
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column)
        numbers[row][column] = rounded_to_bf16(from[row * kSide + column]);
    }
    uint32_t pairs[kSide / 2][kSide];
    for (int k = 0; k < kSide / 2; ++k) {
      for (int row = 0; row < kSide; ++row)
        pairs[k][row] = pair(numbers[row][2 * k], numbers[row][2 * k + 1]);
    }
    std::memcpy(to, pairs, sizeof(pairs));
  }
}

}  // namespace telar::cpu
