#pragma once

#include <vector>

#include "telar/comm/processes.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// Times every operation of the training step on one otherwise idle device, with random samples: for the
/// whole batch and for one micro-batch. Takes about ten steps. Throws Error (user) for an unknown device.
std::vector<OperationCost> measure_costs(const TrainingStep& step, const DeviceSpec& device,
                                         int64_t micro_batches);

/// The strategy's program. A strategy that asks for measurements gets them: first each operation's time
/// alone, then its time in the program, whose workers share caches and memory. Tries at most three programs
/// and returns the one with the shortest step. `processes`: those that train together, which all call it and
/// get parts of the same program; null if there is only one. Throws what measure_costs and rewrite throw.
Program measured_program(const Strategy& strategy, const TrainingStep& step, const Cluster& cluster,
                         Processes* processes = nullptr);

}  // namespace telar
