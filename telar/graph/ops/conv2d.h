#pragma once

#include "telar/graph/graph.h"

namespace telar {

struct Conv2dOptions {
  int64_t stride_h = 1, stride_w = 1;
  int64_t padding_h = 0, padding_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
};

/// Cross-correlation, as is usual for neural networks. x: [N, C, H, W] f32 or bf16;
/// w: [O, C / groups, KH, KW] of x's dtype; b: [O] f32 or kNoValue; y: [N, O, H', W'] with
/// H' = (H + 2·padding − dilation·(KH − 1) − 1) / stride + 1. Attribute "activation" = "relu" (set by
/// fusion): y = max(0, …).
ValueId conv2d(GraphBuilder& builder, ValueId x, ValueId w, ValueId b, const Conv2dOptions& options);

/// The transposed convolution, as PyTorch's ConvTranspose2d: it spreads what conv2d with the same options
/// gathers. x: [N, C, H, W] f32 or bf16; w: [C, O / groups, KH, KW] of x's dtype; b: [O] or kNoValue; y:
/// [N, O, H', W'] with H' = (H − 1)·stride − 2·padding + dilation·(KH − 1) + output_padding + 1, where
/// 0 ≤ output_padding < stride. Throws Error (user) for what does not fit.
struct ConvTranspose2dOptions {
  Conv2dOptions window = {};
  int64_t output_padding_h = 0, output_padding_w = 0;
};
ValueId conv_transpose2d(GraphBuilder& builder, ValueId x, ValueId w, ValueId b,
                         const ConvTranspose2dOptions& options);

}  // namespace telar
