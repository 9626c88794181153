#pragma once

#include "telar/graph/training_step.h"

namespace telar {

/// The forward part of a step's gradient graph, with the loss and the metrics. Throws Error (run) for a step
/// whose forward part is not known.
Graph forward_of(const TrainingStep& step);

/// The value that a forward graph adds to the metric kLoss.
ValueId loss_of(const Graph& forward);

}  // namespace telar
