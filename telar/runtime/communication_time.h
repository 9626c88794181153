#pragma once

#include <span>

#include "telar/comm/processes.h"

namespace telar {

/// Seconds of a step that replicas spent on communication, by when they spent them.
struct CommunicationTime {
  /// Between the operations of the gradient graph: starting buckets and summing shards that are ready. Mean
  /// over the replicas.
  double within_gradient = 0;
  /// After the gradient graph, when nothing is left to compute. The value of the replica that spent least: it
  /// waited for no slower replica.
  double exposed = 0;
  /// Time after the gradient graph beyond `exposed`, spent waiting for the slowest replica. Mean over the
  /// replicas.
  double waiting = 0;
};

/// Compares the times of the same steps over all processes. `exposed` becomes the lowest of all processes;
/// what this process spent beyond it is added to `waiting`. Waits for all.
void compare_over(Processes& processes, std::span<CommunicationTime> steps);

/// The fractions of `seconds`, the duration of all these steps: 0.03 means 3 %. Zeros for no steps.
CommunicationTime parts_of(std::span<const CommunicationTime> steps, double seconds);

}  // namespace telar
