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

}  // namespace telar
