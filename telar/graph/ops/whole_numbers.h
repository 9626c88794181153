#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Whole numbers, f32, as indices, i32: rounded to the nearest. What i32 cannot represent, NaN included,
/// becomes −2³¹, which no table has. No gradient.
ValueId to_indices(GraphBuilder& builder, ValueId x);
/// Indices, i32, as numbers, f32; exact up to 2²⁴. No gradient.
ValueId to_numbers(GraphBuilder& builder, ValueId x);

}  // namespace telar
