#pragma once

#include <cstdint>
#include <string>

#include "telar/comm/processes.h"
#include "telar/train/job.h"

namespace telar {

/// How many workers share a batch: replicas, in all processes. `processes`: those that train together; null for one alone.
int64_t job_workers(const Job& job, const Processes* processes);

/// How many samples stay together when they are shuffled: 1, or with `data.mixing: by_label` a worker's piece of a batch, of which `workers`
/// have equal ones. The job's batch is that of a step (settle_workers()).
int64_t samples_together(const Job& job, int64_t workers);

/// Settles what depends on the number of workers, and leaves a job that does not: the batch of a step, and the learning rate with
/// its warm-up (Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017, sections 2.1 and 2.2). For k times
/// the batch
///
///     linear: rate × k        sqrt: rate × √k
///
/// and a warm-up rises from the rate before, unless the job gives another one. So a run that goes on with another number
/// of workers keeps its batch, its rate and its result. Returns what was done, in words; empty when nothing was. Throws Error (user)
/// for a batch that is too large.
std::string settle_workers(Job& job, int64_t workers);

}  // namespace telar
