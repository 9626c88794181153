#include "telar/train/early_stopping.h"

#include <fmt/format.h>

#include <cmath>

#include "telar/nn/metrics.h"

namespace telar {

std::string not_finite_warning(const std::string& metric, double value, int64_t epoch) {
  if (std::isfinite(value)) return "";
  return fmt::format("the validation {} after epoch {} is {}, so this epoch is no better than any other",
                     metric, epoch + 1, value);
}

bool judge_epoch(double value, const EarlyStopping& rule, TrainingState& state) {
  const bool better =
      !state.best || (lower_is_better(rule.metric) ? value < *state.best : value > *state.best);
  const bool best = std::isfinite(value) && better;
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
