#pragma once

#include <optional>
#include <string>

#include "telar/bench/result.h"
#include "telar/comm/processes.h"

namespace telar::bench {

struct CommOptions {
  size_t bytes = size_t{64} << 20;  ///< of gradients, on each replica
  int replicas = 2;                 ///< in a process, one thread each
  double seconds = 1;               ///< each figure is measured for at least so long, and at least 10 times
  std::string workload = "resnet34_7x7";
  bool steps = true;  ///< also training steps of the workload
};

/// Measures communication between the replicas of this process and, where there are several, between `processes`, of which all call
/// it: sums of gradients, then, where they are asked for, training steps. The result is rank 0's, others get none. Throws Error (user) for options out of range.
///
/// The limit of a sum is the bytes that it must read and write over the pace at which the same threads add rows of their own, with no word
/// to each other; that of a training step is the time of one thread alone for the same samples of each replica, for a pipeline that of
/// its operations shared out over the stages.
std::optional<Result> measure_communication(const CommOptions& options, Processes* processes);

}  // namespace telar::bench
