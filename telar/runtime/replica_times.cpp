#include "telar/runtime/replica_times.h"

#include <fmt/format.h>

#include <algorithm>

namespace telar {

CommunicationTime communication_of(std::span<const WorkerStep> steps) {
  CommunicationTime time;
  time.exposed = steps[0].after_gradient_seconds;
  for (const WorkerStep& step : steps) {
    time.exposed = std::min(time.exposed, step.after_gradient_seconds);
    time.waiting += step.after_gradient_seconds;
    time.within_gradient += step.within_gradient_seconds;
  }
  const auto replicas = static_cast<double>(steps.size());
  time.within_gradient /= replicas;
  time.waiting = time.waiting / replicas - time.exposed;
  return time;
}

void begin_phases(Replicas replicas, std::chrono::steady_clock::time_point waited_since,
                  std::chrono::steady_clock::time_point start) {
  for (const auto& replica : replicas) {
    Timeline* timeline = replica->timeline();
    if (timeline == nullptr) return;
    timeline->begin(waited_since);
    timeline->did(StepPhase::load, "waits for the batch", start);
  }
}

std::optional<PhaseTimes> end_phases(Replicas replicas, const CommunicationTime& communication) {
  if (replicas[0]->timeline() == nullptr) return std::nullopt;
  const auto end = std::chrono::steady_clock::now();
  std::vector<PhaseTimes> times;
  for (const auto& replica : replicas) times.push_back(replica->timeline()->end(end));
  PhaseTimes mean = mean_of(times);
  mean[StepPhase::exchange] -= communication.waiting;
  mean[StepPhase::wait] += communication.waiting;
  return mean;
}

std::vector<TraceRow> trace_of(Replicas replicas, const std::string& what,
                               std::chrono::steady_clock::time_point zero) {
  std::vector<TraceRow> rows;
  for (size_t r = 0; r < replicas.size(); ++r) {
    if (replicas[r]->timeline() == nullptr) continue;
    const std::string name = fmt::format("{} {}, {}", what, r, replicas[r]->device().name());
    for (TraceRow& row : replicas[r]->timeline()->rows(name, zero)) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace telar
