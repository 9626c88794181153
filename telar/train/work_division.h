#pragma once

#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/graph/program.h"
#include "telar/train/step_source.h"
#include "telar/train/training_state.h"

namespace telar {

/// The number of equal parts, one per worker, into which a global batch is divided for one update; 1 if each
/// worker processes whole batches.
int64_t parts_of(const Cooperation& cooperation, int64_t workers);

/// How a coordinator divides epochs of `epoch_steps` batches among workers: the rhythm, parts and leases of
/// its options.
CoordinatorOptions division_of(const Cooperation& cooperation, int64_t workers, int64_t epoch_steps);

/// The number of updates of each server that have led to this state of a training.
int64_t updates_before(const Program& program, const TrainingState& state);

/// The steps that workers have completed, as the trainer counts them.
std::vector<CompletedStep> completed(std::vector<StepDone> steps);

}  // namespace telar
