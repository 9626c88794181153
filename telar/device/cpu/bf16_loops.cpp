#include "telar/device/cpu/bf16_loops.h"

#include <bit>
#include <cstring>

#include "telar/core/simd.h"

namespace telar::cpu {

namespace {

constexpr int kSide = 16;

/// The bf16 number in the upper half of the word; the lower half is undefined. Like to_bf16, but without a
/// branch.
inline uint32_t rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t nearest = bits + 0x7fffU + ((bits >> 16) & 1U);
  return (bits & 0x7fffffffU) > 0x7f800000U ? bits | 0x400000U : nearest;
}

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
        pairs[k][column] = pair(rounded(upper[column]), rounded(upper[kSide + column]));
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
        numbers[row][column] = rounded(from[row * kSide + column]);
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
