#pragma once

#include <memory>
#include <string>
#include <vector>

#include "telar/graph/ops/external.h"
#include "telar/nn/model.h"

namespace telar {

/// What a function of somebody else's trains.
struct ExternalForm {
  std::string name;
  /// With their initial values. Those that are not trainable are statistics, which take the mean over the
  /// samples of their new values at each step.
  std::vector<ParameterInfo> parameters;
  Shape prediction;  ///< of one sample
};

/// A model whose loss, gradients and predictions a function computes: PyTorch in Python or in C++, a
/// simulator, a library. The engine does the rest: it divides batches among workers, exchanges and updates.
/// Strategies that divide the layers of a model have nothing to divide here, and refuse.
///
/// The samples of a batch, input x, are numbers (i32 [N]) by which the function finds them.
class ExternalModel {
 public:
  ExternalModel(const ExternalForm& form, ExternalFunction function);
  /// The object must live as long as sessions that train the model.
  const Model& model() const { return model_; }

 private:
  ExternalRegistration registration_;
  Model model_;
};

}  // namespace telar
