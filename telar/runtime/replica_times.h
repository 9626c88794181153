#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/runtime/replica.h"

namespace telar {

/// Combines the times that the replicas of one process spent on a step. The replicas must be idle.
using Replicas = std::span<const std::unique_ptr<Replica>>;

CommunicationTime communication_of(std::span<const WorkerStep> steps);

/// For replicas that record a timeline: begins a step. The replicas waited for its batch until `start`.
void begin_phases(Replicas replicas, std::chrono::steady_clock::time_point waited_since,
                  std::chrono::steady_clock::time_point start);
/// Ends the step and returns its mean phase times. Time in the group beyond that of the replica that spent
/// least counts as waiting for slower replicas. None if nothing was recorded.
std::optional<PhaseTimes> end_phases(Replicas replicas, const CommunicationTime& communication);

/// Rows of a trace, in microseconds since `zero`. `what`: kind of the replicas, "replica" or "stage".
std::vector<TraceRow> trace_of(Replicas replicas, const std::string& what,
                               std::chrono::steady_clock::time_point zero);

}  // namespace telar
