#pragma once

#include "telar/nn/model_builder.h"

namespace telar {

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< weight of the newest batch in the running statistics, 0 … 1 (as in PyTorch)
};

/// Batch normalisation of x [N, C, H, W] or [N, C], in PyTorch's form. Parameters "NAME.weight" and
/// "NAME.bias" [C] (initially 1 and 0); running statistics "NAME.running_mean" and "NAME.running_var" [C]
/// (initially 0 and 1). Training uses the batch's statistics and adds them (variance unbiased), weighted by
/// the number of samples, to the gradients of NAME.running_mean and NAME.running_var. Evaluation uses
/// the running statistics.
ValueId batch_norm(ModelBuilder& model, const std::string& name, ValueId x,
                   const BatchNormOptions& options = {});

/// Layer normalisation over the last axis of x [N, …, D], in PyTorch's form. Parameters "NAME.weight" and
/// "NAME.bias" [D] (initially 1 and 0).
ValueId layer_norm(ModelBuilder& model, const std::string& name, ValueId x, double epsilon = 1e-5);

}  // namespace telar
