#pragma once

#include <vector>

#include "telar/strategy/strategy.h"

namespace telar {

/// Times every operation of the training step on one otherwise idle device, with random samples: for the
/// whole batch and for one micro-batch. Takes about ten steps. Throws Error (user) for an unknown device.
std::vector<OperationCost> measure_costs(const TrainingStep& step, const DeviceSpec& device,
                                         int64_t micro_batches);

/// Returns a pipeline over the cluster's devices with stages balanced by measurement: first by each
/// operation's time alone, then by its time in the stages, which share caches and memory. Tries at most three
/// balances and returns the one with the shortest step. `options.costs` is ignored. Throws what measure_costs
/// and make_pipeline(options)->rewrite throw.
Program balanced_pipeline(const TrainingStep& step, const Cluster& cluster, StrategyOptions options);

}  // namespace telar
