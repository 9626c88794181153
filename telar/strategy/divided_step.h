#pragma once

#include "telar/graph/training_step.h"
#include "telar/strategy/split_layers.h"

namespace telar {

/// A training step as one member of a group runs it, among whose members layers are divided.
struct DividedStep {
  TrainingStep step;    ///< `parameters` are those of the whole step
  Divisions divisions;  ///< of the parameters that the member does not have whole
};

/// Divides layers of all graphs of a step. Throws what divide_layers() throws.
DividedStep divide_step(const TrainingStep& step, const LayerSplits& splits, const SampleGroup& group);

}  // namespace telar
