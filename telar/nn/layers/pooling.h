#pragma once

#include "telar/nn/layers/convolution.h"

namespace telar {

/// Pools with a layer name for messages and tables (telar/graph/ops/pooling.h defines what they compute).
/// x: [N, C, H, W]. Throws Error (user), naming the layer, when the window does not fit the image.
ValueId max_pool(ModelBuilder& model, const std::string& name, ValueId x, Extent kernel, Extent stride,
                 Extent padding = 0);
ValueId average_pool(ModelBuilder& model, const std::string& name, ValueId x, Extent kernel, Extent stride,
                     Extent padding = 0);
/// Over all of H and W: [N, C, 1, 1].
ValueId global_average_pool(ModelBuilder& model, const std::string& name, ValueId x);

/// The mean over the positions of a sequence, without those whose token is 0, which pads it; 0 if there is no
/// other. x: [N, T, D]; tokens: [N, T] i32; y: [N, D].
ValueId masked_mean(ModelBuilder& model, const std::string& name, ValueId x, ValueId tokens);

}  // namespace telar
