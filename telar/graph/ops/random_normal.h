#pragma once

#include <bit>

#include "telar/graph/graph.h"
#include "telar/graph/ops/random_normal_rule.h"

namespace telar {

/// Numbers from the standard normal distribution: f32 [N, item…]; item: fewer than 2³³ elements. sample: i32
/// [N, 2], global sample ids; random: i32 [4] (telar/graph/ops/random_inputs.h).
///
/// They depend only on seed, epoch, sample id, the layer (attribute "stream") and the position within the
/// sample, so they are the same under any split of the batch. They have no gradient.
ValueId random_normal(GraphBuilder& builder, const Shape& item, ValueId sample, ValueId random);

/// The stream of a node.
inline uint64_t normal_stream(const Attributes& attributes) {
  return std::bit_cast<uint64_t>(attributes.integer("stream"));
}

}  // namespace telar
