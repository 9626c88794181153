#include "telar/train/early_stopping.h"

namespace telar {

bool judge_epoch(double value, const EarlyStopping& rule, TrainingState& state) {
  const bool lower_is_better = rule.metric == "loss";
  const bool best = !state.best || (lower_is_better ? value < *state.best : value > *state.best);
  if (best) {
    state.best = value;
    state.best_step = state.step;
    state.epochs_since_best = 0;
  } else {
    ++state.epochs_since_best;
  }
  state.stopped_early = rule.patience > 0 && state.epochs_since_best >= rule.patience;
  return best;
}

}  // namespace telar
