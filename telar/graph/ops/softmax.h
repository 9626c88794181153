#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// y = eˣ / Σ eˣ along `axis` (−1: the last). x: any shape, f32 or bf16; y: the same type. For the loss of a
/// classifier use `cross_entropy`, which takes logits.
ValueId softmax(GraphBuilder& builder, ValueId x, int64_t axis);

}  // namespace telar
