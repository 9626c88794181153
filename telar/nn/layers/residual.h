#pragma once

#include "telar/nn/model_builder.h"

namespace telar {

/// The two blocks of residual networks (He et al., 2016), with torchvision's parameter names.
/// x: [N, C, H, W]. The shortcut is x itself or, when the stride is not 1 or the number of channels changes,
/// a 1×1 convolution with batch norm ("NAME.downsample.0", "NAME.downsample.1").

/// Two 3×3 convolutions. y: [N, channels, H / stride, W / stride].
ValueId basic_block(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                    int64_t stride);

/// 1×1, 3×3 (with the stride) and 1×1 convolutions. y: [N, 4 · channels, H / stride, W / stride].
ValueId bottleneck_block(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                         int64_t stride);

/// A k×k convolution without bias that keeps the image size at stride 1, initialised as in torchvision's
/// residual networks.
ValueId residual_convolution(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                             int64_t kernel, int64_t stride);

}  // namespace telar
