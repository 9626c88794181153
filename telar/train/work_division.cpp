#include "telar/train/work_division.h"

#include <algorithm>
#include <utility>

namespace telar {

namespace {

/// The number of batches in a lease. If workers process whole batches, assigned on request, the number is
/// small enough for each worker to get four leases even in a short epoch.
int64_t lease_steps(const Cooperation& cooperation, int64_t workers, int64_t epoch_steps) {
  constexpr int64_t kMost = 8;
  if (cooperation.backups > 0) return 1;
  if (parts_of(cooperation, workers) > 1) return kMost;
  return std::clamp<int64_t>(epoch_steps / (4 * workers), 1, kMost);
}

}  // namespace

int64_t parts_of(const Cooperation& cooperation, int64_t workers) {
  return cooperation.kind == Cooperation::Kind::rounds ? workers : 1;
}

CoordinatorOptions division_of(const Cooperation& cooperation, int64_t workers, int64_t epoch_steps) {
  CoordinatorOptions options;
  options.workers = workers;
  options.backups = cooperation.backups;
  options.rhythm = cooperation.kind == Cooperation::Kind::rounds ? Rhythm::rounds : Rhythm::free;
  options.parts = parts_of(cooperation, workers);
  options.lease_steps = lease_steps(cooperation, workers, epoch_steps);
  options.staleness_bound = cooperation.staleness;
  return options;
}

std::vector<CompletedStep> completed(std::vector<StepDone> steps) {
  std::vector<CompletedStep> all;
  for (StepDone& step : steps)
    all.push_back({.step = step.step,
                   .samples = step.samples,
                   .metrics = std::move(step.metrics),
                   .latency = std::move(step.latency)});
  return all;
}

}  // namespace telar
