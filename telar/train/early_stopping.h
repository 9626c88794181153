#pragma once

#include <cstdint>
#include <string>

#include "telar/train/training_state.h"

namespace telar {

/// Selects the best epoch, and ends training when it no longer improves.
struct EarlyStopping {
  std::string metric =
      "loss";            ///< on the validation samples; lower is better for "loss", higher for all others
  int64_t patience = 0;  ///< epochs without improvement before training ends; 0: no limit
};

/// Notes the metric of an epoch, which is about to end, in the state. Whether it is the best so far.
bool judge_epoch(double value, const EarlyStopping& rule, TrainingState& state);

}  // namespace telar
