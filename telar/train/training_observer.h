#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "telar/core/latency_counts.h"
#include "telar/train/training_state.h"

namespace telar {

struct EpochStart {
  int64_t epoch = 0;  ///< from 0
  int64_t epochs = 0;
  int64_t steps = 0;       ///< in the epoch
  int64_t samples = 0;     ///< in the epoch
  double rate_factor = 1;  ///< of the schedule's rates, by a PlateauSchedule
};

struct StepReport {
  int64_t samples = 0;
  const std::vector<double>& sums;  ///< sum of each metric over the samples of this step
  double learning_rate = 0;
  double seconds = 0;
  bool last_of_epoch = false;  ///< epoch_done() follows with the same step number
  int64_t step_of_epoch = 0;   ///< from 0; the steps of several workers are done in any order
  Position at;                 ///< CompletedStep::at, after, latency
  Position after;
  LatencyCounts latency;
  const DriftEvent* drift = nullptr;  ///< that was detected with this step; null: none
  bool again = false;                 ///< observers have heard of this step before, and it was made again
};

struct EpochReport {
  int64_t epoch = 0;               ///< from 0
  std::vector<double> train;       ///< values of the figures, computed during training
  std::vector<double> validation;  ///< those after the epoch; empty without validation samples
  double validation_seconds = 0;
  bool best = false;                   ///< the best epoch so far
  bool again = false;                  ///< observers have heard of its end before
  std::optional<double> lowered_rate;  ///< by a PlateauSchedule, for the next epoch; none: it stays
};

/// Receives the events of a training: for progress, logs and checkpoints. `state` is the state after the
/// event. An exception from an observer ends the training.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void epoch_began(const EpochStart& /*start*/, const TrainingState& /*state*/) {}
  virtual void step_done(const StepReport& /*report*/, const TrainingState& /*state*/) {}
  virtual void epoch_done(const EpochReport& /*report*/, const TrainingState& /*state*/) {}
  /// Training pauses within an epoch: all steps before this state are done, none after it has begun (see
  /// TrainerOptions::pause_steps).
  virtual void paused(const TrainingState& /*state*/) {}
};

}  // namespace telar
