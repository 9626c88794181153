#pragma once

#include <vector>

#include "telar/strategy/strategy.h"

namespace telar {

/// Times every operation of the training step on one device that has the machine for itself, with random samples: over the whole
/// batch, and over one micro-batch. Takes some ten steps. Throws Error (user) for an unknown device.
std::vector<OperationCost> measure_costs(const TrainingStep& step, const DeviceSpec& device,
                                         int64_t micro_batches);

/// The pipeline over the cluster's devices, its stages balanced by measurement: by what each operation takes alone, then by what it
/// takes in the stages, which share caches and memory. Of at most three balances, each tried out, the one with the shortest step.
/// Throws as measure_costs and make_pipeline(options)->rewrite do. `options.costs` are not looked at.
Program balanced_pipeline(const TrainingStep& step, const Cluster& cluster, StrategyOptions options);

}  // namespace telar
