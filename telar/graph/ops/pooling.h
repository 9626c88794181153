#pragma once

#include "telar/graph/graph.h"

namespace telar {

struct PoolOptions {
  int64_t kernel_h = 2, kernel_w = 2;
  int64_t stride_h = 2, stride_w = 2;
  int64_t padding_h = 0, padding_w = 0;
};

/// The largest element of each window; padding is never the largest. x: [N, C, H, W] f32 or bf16;
/// y: [N, C, H', W'], H' = (H + 2·padding − kernel) / stride + 1 (rounded down).
ValueId max_pool(GraphBuilder& builder, ValueId x, const PoolOptions& options);
/// The mean of each window; padding counts as zeros, as by default in PyTorch.
ValueId average_pool(GraphBuilder& builder, ValueId x, const PoolOptions& options);
/// The mean over H and W: y is [N, C, 1, 1].
ValueId global_average_pool(GraphBuilder& builder, ValueId x);

}  // namespace telar
