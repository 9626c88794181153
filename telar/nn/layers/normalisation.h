#pragma once

#include "telar/nn/model_builder.h"

namespace telar {

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< PyTorch's: the weight of the newest batch in the running statistics, 0 … 1
};

/// Batch normalisation of x [N, C, H, W] or [N, C], PyTorch's form. Parameters "NAME.weight" and "NAME.bias" [C] (1 and 0
/// at first), running statistics "NAME.running_mean" and "NAME.running_var" [C] (0 and 1). Training uses the batch's
/// statistics and adds them (variance unbiased) to "gradient/NAME.running_mean" and "gradient/NAME.running_var",
/// weighted by the samples; evaluation uses the running ones.
ValueId batch_norm(ModelBuilder& model, const std::string& name, ValueId x,
                   const BatchNormOptions& options = {});

/// Layer normalisation over the last axis of x [N, …, D], PyTorch's form. Parameters "NAME.weight" and "NAME.bias" [D] (1
/// and 0 at first).
ValueId layer_norm(ModelBuilder& model, const std::string& name, ValueId x, double epsilon = 1e-5);

}  // namespace telar
