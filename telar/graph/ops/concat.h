#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Concatenates the values along `axis` (−1: the last). They have the same dtype (f32, bf16 or i32) and agree
/// in every other axis.
ValueId concat(GraphBuilder& builder, const std::vector<ValueId>& values, int64_t axis);

/// The inverse of concat: parts of the given extents along `axis`, in order; the extents add up to that of x.
/// The batch axis cannot be split, since its extent is not fixed.
std::vector<ValueId> split(GraphBuilder& builder, ValueId x, int64_t axis, const std::vector<int64_t>& sizes);

}  // namespace telar
