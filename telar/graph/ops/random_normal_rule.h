#pragma once

#include <cstdint>

#include "telar/core/random.h"

// This header includes only those standard headers that a GPU compiler accepts as C++17.
namespace telar {

/// What every device's kernel computes (random_normal.h). Elements 2·block and 2·block + 1 of a sample are
/// the pair (Box and Muller, 1958) of words 0 and 1 of philox(counter(block, sample)).
struct NormalRule {
  /// `random`: i32 [4] (seed low, seed high, epoch, 0).
  constexpr NormalRule(uint64_t stream, const int32_t* random)
      : philox(static_cast<uint32_t>(random[0]) | uint64_t{static_cast<uint32_t>(random[1])} << 32, stream),
        epoch(static_cast<uint32_t>(random[2])) {}

  /// Counter of a block below 2³². `sample`: the id's low and high word.
  constexpr Philox::Counter counter(uint64_t block, const int32_t* sample) const {
    return {static_cast<uint32_t>(block), static_cast<uint32_t>(sample[1]), static_cast<uint32_t>(sample[0]),
            epoch};
  }

  Philox philox;
  uint32_t epoch;
};

}  // namespace telar
