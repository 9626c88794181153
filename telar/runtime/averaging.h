#pragma once

#include <memory>

#include "telar/runtime/step_context.h"

namespace telar {

/// Replaces the parameters of all workers that train alone by their mean, in the memory of the gradients,
/// which are lost. All workers call it. Waits.
void average_parameters(StepContext& context);

/// What a worker that trains alone shows of its parameters: its own, or the mean of all workers' between two
/// averages. All workers change the view together.
class ParameterView {
 public:
  void show_mean(StepContext& context);
  void show_own(StepContext& context);

 private:
  std::unique_ptr<Memory> own_;  ///< while the mean is shown
};

}  // namespace telar
