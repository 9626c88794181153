#pragma once

#include <bit>

#include "telar/graph/graph.h"
#include "telar/graph/ops/dropout_rule.h"

namespace telar {

/// Inverted dropout (Srivastava et al., 2014): each element is zero with probability `rate`, otherwise
/// divided by 1 − rate. x: [N, …] f32 or bf16, fewer than 2³⁴ elements in a sample; y: x's type; sample: i32
/// [N, 2], global sample ids (low word, high word); random: i32 [4] (seed low, seed high, epoch, 0).
///
/// Which elements are dropped depends only on seed, epoch, sample id, the layer (attribute "stream": a hash
/// of the builder's scope) and the position within the sample. It is therefore the same under any split of
/// the batch. Attribute "first" (0 if absent): the position within the sample of the first element of x, when x is
/// a part of the features. With rate 0 the result is x itself. Throws Error (user) unless 0 ≤ rate < 1.
ValueId dropout(GraphBuilder& builder, ValueId x, double rate, ValueId sample, ValueId random);

/// The position within a sample of the first element.
inline int64_t dropout_begin(const Attributes& attributes) {
  return attributes.has("first") ? attributes.integer("first") : 0;
}

/// The constants of a node with these attributes.
inline DropoutConstants dropout_constants(const Attributes& attributes) {
  const double rate = attributes.real("rate");
  return {std::bit_cast<uint64_t>(attributes.integer("stream")), static_cast<uint32_t>(rate * 0x1.0p32),
          static_cast<float>(1 / (1 - rate))};
}

}  // namespace telar
