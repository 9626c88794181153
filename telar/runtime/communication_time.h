#pragma once

#include <span>

#include "telar/comm/processes.h"

namespace telar {

/// Seconds of a step that replicas spent on each other and on other processes, told apart by when.
struct CommunicationTime {
  /// Between the operations of the gradient graph: starting buckets, summing shards that are ready. Mean of the replicas.
  double within_gradient = 0;
  /// After it, when nothing was left to compute: of the replica that spent least, which has waited for nobody slower.
  double exposed = 0;
  /// What the replicas spent after it beyond that, waiting for the slowest one. Mean of the replicas.
  double waiting = 0;
};

/// Each process gives what its replicas have spent in the same steps. What is exposed becomes that of the replica that spent least
/// among all processes; what this process spent beyond it was waiting. Waits for all.
void compare_over(Processes& processes, std::span<CommunicationTime> steps);

/// Parts of all these steps, which took `seconds`: 0.03 for 3 %. Zeros for no steps.
CommunicationTime parts_of(std::span<const CommunicationTime> steps, double seconds);

}  // namespace telar
