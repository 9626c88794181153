#pragma once

#include "telar/nn/model_builder.h"

namespace telar {

/// The two blocks of residual networks (He et al., 2016), with torchvision's names inside. x: [N, C, H, W]. The shortcut is x
/// itself, or a 1×1 convolution with batch norm ("NAME.downsample.0", "NAME.downsample.1") when stride or channels change.

/// Two 3×3 convolutions. y: [N, channels, H / stride, W / stride].
ValueId basic_block(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                    int64_t stride);

/// 1×1, 3×3 (with the stride) and 1×1 convolutions. y: [N, 4 · channels, H / stride, W / stride].
ValueId bottleneck_block(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                         int64_t stride);

/// A k×k convolution without bias that keeps the size at stride 1, started as torchvision's residual networks are.
ValueId residual_convolution(ModelBuilder& model, const std::string& name, ValueId x, int64_t channels,
                             int64_t kernel, int64_t stride);

}  // namespace telar
