#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/runtime/replica.h"

namespace telar {

/// What the replicas of one process spent on a step, put together. They stand still meanwhile.
using Replicas = std::span<const std::unique_ptr<Replica>>;

CommunicationTime communication_of(std::span<const Replica::Step> steps);

/// For replicas that write down what they do: a step begins, whose batch they have waited for until `start`.
void begin_phases(Replicas replicas, std::chrono::steady_clock::time_point waited_since,
                  std::chrono::steady_clock::time_point start);
/// The step has ended: the mean of what it went into. What a replica spent in the group beyond the one that spent least was waiting for
/// slower ones. None when nothing was written down.
std::optional<PhaseTimes> end_phases(Replicas replicas, const CommunicationTime& communication);

/// Rows of a trace, by microseconds since `zero`. `what` they are: "replica", "stage".
std::vector<TraceRow> trace_of(Replicas replicas, const std::string& what,
                               std::chrono::steady_clock::time_point zero);

}  // namespace telar
