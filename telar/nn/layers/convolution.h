#pragma once

#include <optional>

#include "telar/nn/model_builder.h"

namespace telar {

/// Height and width; a single number sets both.
struct Extent {
  int64_t h = 1;
  int64_t w = 1;
  Extent(int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor): `.kernel = 3`
  Extent(int64_t height, int64_t width) : h(height), w(width) {}
};

struct ConvolutionOptions {
  int64_t channels = 1;  ///< number of output channels
  Extent kernel = 3;
  Extent stride = 1;
  Extent padding = 0;
  Extent dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  std::optional<Initializer> weight_initializer = std::nullopt;  ///< of the weight; if absent, PyTorch's
};

/// A 2-d convolution. x: [N, C, H, W]; y: [N, channels, H', W'] (telar/graph/ops/conv2d.h). Parameters
/// "NAME.weight" [channels, C / groups, KH, KW] and, with `bias`, "NAME.bias" [channels]. Throws Error (user)
/// for extents below 1, groups that do not divide the channels, or a kernel larger than the image.
ValueId conv2d(ModelBuilder& model, const std::string& name, ValueId x, const ConvolutionOptions& options);

}  // namespace telar
