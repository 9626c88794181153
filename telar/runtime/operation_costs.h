#pragma once

#include <vector>

#include "telar/strategy/strategy.h"

namespace telar {

/// Times every operation of the training step on one device, with random samples: over the whole batch, and over one
/// micro-batch. Takes some ten steps. Throws Error (user) for an unknown device.
std::vector<OperationCost> measure_costs(const TrainingStep& step, const DeviceSpec& device,
                                         int64_t micro_batches);

}  // namespace telar
