#pragma once

#include <cstdint>
#include <string>

#include "telar/nn/schedule.h"
#include "telar/train/training_state.h"

namespace telar {

/// Selects the best epoch, and ends training when it no longer improves.
struct EarlyStopping {
  std::string metric = "loss";  ///< on the validation samples; see lower_is_better()
  int64_t patience = 0;         ///< epochs without improvement before training ends; 0: no limit
};

/// Notes the metric of an epoch, which is about to end, in the state. Whether it is the best so far: never
/// with a NaN or infinity.
bool judge_epoch(double value, const EarlyStopping& rule, TrainingState& state);

/// Notes the metric of an epoch, and lowers the factor of the rate when it has not improved for long enough.
/// `base`: the rate before any factor. Whether the factor is lower now; a NaN is no improvement.
bool judge_plateau(double value, const std::string& metric, const PlateauSchedule& rule, double base,
                   TrainingState& state);

/// A warning for a validation metric that is NaN or infinite; empty for others. `epoch`: from 0.
std::string not_finite_warning(const std::string& metric, double value, int64_t epoch);

}  // namespace telar
