#pragma once

#include <optional>
#include <string>

#include "telar/bench/result.h"
#include "telar/comm/processes.h"

namespace telar::bench {

struct CommOptions {
  size_t bytes = size_t{64} << 20;  ///< gradients on each replica
  int replicas = 2;                 ///< in one process, one thread each
  double seconds = 1;  ///< minimum time of each measurement, which also has at least 10 repetitions
  std::string workload = "resnet34_7x7";
  bool steps = true;  ///< also measure training steps of the workload
};

/// Measures communication between the replicas of this process. If there are several `processes`, all of them
/// must call it, and it also measures communication between them. It measures sums of gradients and
/// optionally training steps. Rank 0 gets the result; others get none. Throws Error (user) for options out of
/// range.
///
/// The limit of a sum is the number of bytes that it must read and write, divided by the rate at which the
/// same threads add rows of their own without synchronisation. The limit of a training step is the time of
/// one thread alone for the samples of one replica; for a pipeline, the time of its operations divided by the
/// number of stages.
std::optional<Result> measure_communication(const CommOptions& options, Processes* processes);

}  // namespace telar::bench
