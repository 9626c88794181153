#pragma once

#include "telar/nn/model_builder.h"

namespace telar {

/// In training, each element is zero with probability `rate`, and the others are divided by 1 − rate. In
/// evaluation the result is x. x: [N, …]. Which elements are dropped depends on the seed, epoch, global
/// sample id (inputs "random" and "sample") and the layer's full name, which must therefore be unique. Throws
/// Error (user) unless 0 ≤ rate < 1.
ValueId dropout(ModelBuilder& model, const std::string& name, ValueId x, double rate);

}  // namespace telar
