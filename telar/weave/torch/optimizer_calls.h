#pragma once

#include <vector>

#include "telar/weave/torch/writer.h"

namespace telar::weave {

/// `optimizer.step()`, `scaler.step(optimizer)`, `optimizer.zero_grad()` or `model.zero_grad()`.
struct OptimizerCall {
  std::vector<const TorchOptimizer*> optimizers;  ///< that it may be; empty: it is another call
  const Node* expression = nullptr;               ///< the optimizer, or the model
  bool steps = false;
};

OptimizerCall optimizer_call(const TorchWeaving& weaving, const Node* call);

}  // namespace telar::weave
