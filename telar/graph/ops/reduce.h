#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Reductions of x (f32 or bf16; sums are accumulated in f32) over the given axes (−1: the last; none given:
/// all). The axes are removed, or stay with extent 1 under `keep_dims`; when none is left, the result is [1].
/// A loss is a *sum* over samples (axis 0): a mean over the batch would depend on how the batch is split.
ValueId reduce_sum(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes,
                   bool keep_dims = false);
ValueId reduce_mean(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes,
                    bool keep_dims = false);
/// Elements that share the maximum share its gradient equally, as with torch.amax.
ValueId reduce_max(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes,
                   bool keep_dims = false);

}  // namespace telar
