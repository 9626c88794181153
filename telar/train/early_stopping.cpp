#include "telar/train/early_stopping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "telar/nn/metrics.h"

namespace telar {

std::string not_finite_warning(const std::string& metric, double value, int64_t epoch) {
  if (std::isfinite(value)) return "";
  return fmt::format("the validation {} after epoch {} is {}, so this epoch is no better than any other",
                     metric, epoch + 1, value);
}

namespace {

bool improves(double value, const std::string& metric, const std::optional<double>& best) {
  if (!std::isfinite(value)) return false;
  return !best || (lower_is_better(metric) ? value < *best : value > *best);
}

}  // namespace

bool judge_plateau(double value, const std::string& metric, const PlateauSchedule& rule, double base,
                   TrainingState& state) {
  Plateau& plateau = state.plateau ? *state.plateau : state.plateau.emplace();
  if (improves(value, metric, plateau.best)) {
    plateau.best = value;
    plateau.epochs = 0;
    return false;
  }
  if (++plateau.epochs < rule.patience) return false;
  plateau.epochs = 0;
  const double before = plateau.factor;
  plateau.factor = std::max(before * rule.gamma, std::min(before, rule.minimum / base));
  return plateau.factor < before;
}

bool judge_epoch(double value, const EarlyStopping& rule, TrainingState& state) {
  const bool best = improves(value, rule.metric, state.best);
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
