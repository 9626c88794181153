#include "telar/train/work_division.h"

#include <algorithm>
#include <utility>

#include "telar/runtime/server_state.h"

namespace telar {

namespace {

/// A lease is one piece of work, or if workers process whole batches, several of one batch. They are assigned
/// on request, so a lease is then small enough for each worker to get four even in a short epoch, and a piece
/// of several batches small enough for each worker to get one.
LeaseSizes lease_sizes(const Cooperation& cooperation, int64_t workers, int64_t epoch_steps) {
  constexpr int64_t kMost = 8;
  const bool divides_batches = parts_of(cooperation, workers) > 1;
  const int64_t own = std::max<int64_t>(1, divides_batches ? epoch_steps : epoch_steps / workers);
  if (const int64_t work = std::min(cooperation.work_steps, own); work > 1)
    return {.lease = work, .work = work};
  return {.lease = divides_batches ? 1 : std::clamp<int64_t>(own / 4, 1, kMost)};
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
  options.sizes = lease_sizes(cooperation, workers, epoch_steps);
  options.staleness_bound = cooperation.staleness;
  return options;
}

int64_t updates_before(const Program& program, const TrainingState& state) {
  return state.updates.value_or(updates_after(program, state.step));
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
