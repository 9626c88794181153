#pragma once

#include <cstdint>
#include <vector>

#include "telar/train/training_state.h"

namespace telar {

struct EpochStart {
  int64_t epoch = 0;  ///< from 0
  int64_t epochs = 0;
  int64_t steps = 0;    ///< of the epoch
  int64_t samples = 0;  ///< of the epoch
};

struct StepReport {
  int64_t samples = 0;
  const std::vector<double>& sums;  ///< metrics over the samples of this step
  double learning_rate = 0;
  double seconds = 0;
  bool last_of_epoch = false;  ///< an epoch_done with the same step number follows
};

struct EpochReport {
  int64_t epoch = 0;               ///< from 0
  std::vector<double> train;       ///< means over the samples as they were trained on
  std::vector<double> validation;  ///< means after the epoch; empty without validation samples
  double validation_seconds = 0;
  bool best = false;  ///< the best epoch so far
};

/// Told what happens in a training: progress, logs, checkpoints. `state` is the one after what is told. What an observer throws
/// ends the training.
class TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void epoch_began(const EpochStart& /*start*/, const TrainingState& /*state*/) {}
  virtual void step_done(const StepReport& /*report*/, const TrainingState& /*state*/) {}
  virtual void epoch_done(const EpochReport& /*report*/, const TrainingState& /*state*/) {}
  /// Steps that are made elsewhere stand still, within an epoch: all before this state are done, none after it (TrainerOptions::pause_steps).
  virtual void paused(const TrainingState& /*state*/) {}
};

}  // namespace telar
