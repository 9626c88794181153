#pragma once

#include "telar/nn/model_builder.h"

namespace telar {

/// y = x · wᵀ + b over the last axis. x: [N, …, I] of rank 2 or more; y: [N, …, features]. Parameters
/// "NAME.weight" [features, I] and, with `bias`, "NAME.bias" [features], with PyTorch's initial values.
/// Throws Error (user) for x of rank 1 and for features below 1.
ValueId linear(ModelBuilder& model, const std::string& name, ValueId x, int64_t features, bool bias = true);

}  // namespace telar
