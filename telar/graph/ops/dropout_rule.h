#pragma once

#include <cstdint>

#include "telar/core/random.h"

// This header includes only those standard headers that a GPU compiler accepts as C++17.
namespace telar {

/// The part of dropout's rule that the graph determines.
struct DropoutConstants {
  uint64_t stream;
  uint32_t threshold;  ///< rate · 2³²
  float scale;         ///< 1 / (1 − rate)
};

/// What every device's kernel computes (dropout.h). Element i of a sample is kept, and multiplied by `scale`,
/// when word i mod 4 of philox(counter(i / 4, sample)) is at least `threshold`.
struct DropoutRule {
  /// `random`: i32 [4] (seed low, seed high, epoch, 0).
  constexpr DropoutRule(const DropoutConstants& constants, const int32_t* random)
      : philox(static_cast<uint32_t>(random[0]) | uint64_t{static_cast<uint32_t>(random[1])} << 32,
               constants.stream),
        epoch(static_cast<uint32_t>(random[2])),
        threshold(constants.threshold),
        scale(constants.scale) {}

  /// Counter of elements 4·block … 4·block + 3, for a block below 2³². `sample`: the id's low and high word.
  constexpr Philox::Counter counter(uint64_t block, const int32_t* sample) const {
    return {static_cast<uint32_t>(block), static_cast<uint32_t>(sample[1]), static_cast<uint32_t>(sample[0]),
            epoch};
  }

  Philox philox;
  uint32_t epoch;
  uint32_t threshold;
  float scale;
};

}  // namespace telar
