#pragma once

#include "telar/graph/graph.h"

namespace telar {

/// Reductions of x (f32 or bf16; sums are kept in f32) over the given axes (−1: the last; none given: all).
/// The axes go away, or stay with extent 1 under `keep_dims`; when none is left the result is [1]. A loss is
/// a *sum* over samples (axis 0): a mean over the batch would not be the same when the batch is split.
ValueId reduce_sum(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes,
                   bool keep_dims = false);
ValueId reduce_mean(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes,
                    bool keep_dims = false);
/// Elements that share the maximum share its gradient equally, as torch.amax does.
ValueId reduce_max(GraphBuilder& builder, ValueId x, const std::vector<int64_t>& axes,
                   bool keep_dims = false);

}  // namespace telar
