#pragma once

#include <array>

#include "telar/core/random.h"
#include "telar/graph/graph.h"

namespace telar {

/// Inverted dropout (Srivastava et al., 2014): each element is zero with probability `rate`, otherwise
/// divided by 1 − rate. x: [N, …] f32 or bf16; y: x's type; sample: i32 [N], global sample ids; random: i32
/// [4] (seed low, seed high, epoch, 0).
///
/// Which elements are dropped depends on seed, epoch, sample id, the layer (attribute "stream": a hash of the
/// builder's scope) and the position within the sample, and on nothing else: it is the same however a batch
/// is split. Throws Error (user) unless 0 ≤ rate < 1. With rate 0 the result is x itself.
ValueId dropout(GraphBuilder& builder, ValueId x, double rate, ValueId sample, ValueId random);

/// What every device's kernel computes: element i of a sample is kept when word i mod 4 of
/// philox(counter(i / 4, sample, epoch)) is at least `threshold`.
struct DropoutRule {
  DropoutRule(const Attributes& attributes, const int32_t* random);

  /// Counter of elements 4·block … 4·block + 3.
  Philox::Counter counter(uint64_t block, int32_t sample) const {
    return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), static_cast<uint32_t>(sample),
            epoch};
  }

  Philox philox;
  uint32_t epoch;
  uint32_t threshold;  ///< rate · 2³²
  float scale;         ///< 1 / (1 − rate)
};

}  // namespace telar
