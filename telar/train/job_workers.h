#pragma once

#include <cstdint>
#include <string>

#include "telar/comm/processes.h"
#include "telar/data/dataset.h"
#include "telar/train/job.h"

namespace telar {

/// The number of workers that share a batch: the replicas of all processes. `processes`: the processes that
/// train together; null if there is only one.
int64_t job_workers(const Job& job, const Processes* processes);
int64_t job_workers(const Job& job, int processes);

/// The job for another number of processes than it has begun with: where the strategy's workers are those of
/// all processes together (Workers::of_all_processes), their number changes (StrategyType::count), so that
/// each process has as many as before, or nearly as many where the strategy or the model does not suit that.
/// Throws Error (user) if none suits them.
Job job_for(const Job& job, const SampleSpec& spec, int64_t begun_with, int processes);

/// The number of samples that stay together in a shuffle: 1, or with `data.mixing: by_label` one worker's
/// share of a batch, which is divided equally among `workers`. The job's batch must be that of a step
/// (settle_workers()).
int64_t samples_together(const Job& job, int64_t workers);

/// Settles the keys that depend on the number of workers: the batch of a step, and the learning rate with its
/// warm-up (Goyal et al., "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017, sections 2.1
/// and 2.2). For k times the batch
///
///     linear: rate × k        sqrt: rate × √k
///
/// and the warm-up starts from the original rate, unless the job sets another one. The resulting job no
/// longer depends on the number of workers, so a run that resumes with a different number keeps its batch,
/// rate and result. Returns a description of the changes; empty if there are none. Throws Error (user) if the
/// batch is too large.
std::string settle_workers(Job& job, int64_t workers);

}  // namespace telar
