#pragma once

#include <string>
#include <vector>

#include "telar/core/option.h"
#include "telar/strategy/strategy.h"

namespace telar {

/// What strategies have in common whose workers each process a share of every batch.

/// The option `replicas`.
Option replicas_option();

/// Replicas of each process, by the option `replicas`, with shares that may differ.
Workers data_parallel_workers(const Attributes& options);

/// The workers of all processes, each with the same number. Throws Error (user) if there is none.
int64_t workers_of(const std::string& strategy, const Cluster& cluster);

/// The schedule of a worker that computes the gradient of its share and updates a part of the parameters.
std::vector<ScheduledAction> data_parallel_schedule();

/// The program in which the workers of a process share whole parameters, and gradients are summed bucket by
/// bucket while backward continues. Each worker updates its shard of the parameters. `options`: batch_norm
/// and bucket_mb.
Program data_parallel_program(const std::string& strategy, const TrainingStep& step, const Cluster& cluster,
                              const Attributes& options);

}  // namespace telar
