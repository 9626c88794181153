#pragma once

#include <cstdint>
#include <string>

#include "telar/comm/processes.h"
#include "telar/observe/cgroup.h"
#include "telar/train/job.h"
#include "telar/train/job_session.h"

namespace telar {

/// The threads of one process.
struct ThreadBudget {
  int available = 1;  ///< that it may run at once (available_threads())
  int computing = 1;  ///< of its replicas
  int left() const { return available - computing; }
};

/// `processes`: the processes that train together; null if there is only this one.
ThreadBudget thread_budget(const Job& job, const Processes* processes,
                           const CgroupLimits& limits = read_cgroup_limits());

/// The loader threads of a process whose job sets none: those that computing leaves, because a loader thread
/// that displaces a computing one delays the whole team; at least 1, so that batches are read ahead; at most
/// `prefetch`, because so many batches are read at once.
int default_loader_threads(const ThreadBudget& budget, int64_t prefetch);

/// The number that the job sets (`data.threads`), or the default.
int loader_threads(const Job& job, const Processes* processes,
                   const CgroupLimits& limits = read_cgroup_limits());

/// The warning for a process with a quota of processor time (quota_text()): "data.threads is 8, but …". Empty if
/// the job sets no more loader threads than computing leaves.
std::string loader_warning(const DataJob& data, const ThreadBudget& budget);

/// Reports what a quota of processor time means for this process, if there is one: the threads that compute,
/// those that load, and the warning.
void tell_threads(const Job& job, const Processes* processes, const SessionTalk& talk,
                  const CgroupLimits& limits = read_cgroup_limits());

}  // namespace telar
