#include "telar/bench/learned.h"

#include <cmath>

namespace telar::bench {

namespace {

/// Samples per second in each epoch of a curve. With three epochs or more, the first is left out, because
/// processes start and caches fill in it.
std::vector<double> epoch_rates(const TrainingCurve& curve) {
  std::vector<double> rates;
  CurvePoint before;
  if (!curve.steps.empty() && curve.steps.front().seconds == 0)
    before = curve.steps.front();  // time counts from here
  for (const CurvePoint& epoch : curve.epochs) {
    if (epoch.seconds > before.seconds)
      rates.push_back((epoch.samples - before.samples) / (epoch.seconds - before.seconds));
    before = epoch;
  }
  if (rates.size() >= 3) rates.erase(rates.begin());
  return rates;
}

std::optional<double> seconds_to(const TrainingCurve& curve, double accuracy) {
  for (const CurvePoint& epoch : curve.epochs)
    if (epoch.accuracy && *epoch.accuracy >= accuracy) return epoch.seconds;
  return std::nullopt;
}

}  // namespace

double chance(double accuracy, const Judges& judges) {
  return judges.samples < 1 ? 0 : 2 * std::sqrt(2 * accuracy * (1 - accuracy) / judges.samples);
}

std::optional<double> final_accuracy(const Learned& learned) {
  std::vector<double> all;
  for (const TrainingRun& run : learned.rounds)
    if (!run.curve.epochs.empty() && run.curve.epochs.back().accuracy)
      all.push_back(*run.curve.epochs.back().accuracy);
  return all.empty() ? std::nullopt : std::optional(Spread::of(all).median);
}

std::optional<double> reached_accuracy(const Learned& learned) {
  std::optional<double> lowest;
  for (const TrainingRun& run : learned.rounds) {
    std::optional<double> best;
    for (const CurvePoint& epoch : run.curve.epochs)
      if (epoch.accuracy) best = std::max(best.value_or(0), *epoch.accuracy);
    if (!best) return std::nullopt;
    lowest = std::min(lowest.value_or(1), *best);
  }
  return lowest;
}

std::optional<Spread> seconds_to(const Learned& learned, double accuracy) {
  std::vector<double> all;
  for (const TrainingRun& run : learned.rounds) {
    const auto seconds = seconds_to(run.curve, accuracy);
    if (!seconds) return std::nullopt;
    all.push_back(*seconds);
  }
  if (all.empty()) return std::nullopt;
  if (all.size() > 1) return Spread::of(all);
  const auto rates = samples_per_second(learned);
  if (!rates) return Spread{all[0], all[0], all[0]};
  return Spread{all[0], all[0] * rates->median / rates->most, all[0] * rates->median / rates->least};
}

std::optional<Spread> samples_per_second(const Learned& learned) {
  std::vector<double> all;
  for (const TrainingRun& run : learned.rounds) {
    const std::vector<double> rates = epoch_rates(run.curve);
    if (rates.empty()) continue;
    if (learned.rounds.size() == 1) return Spread::of(rates);
    all.push_back(Spread::of(rates).median);
  }
  return all.empty() ? std::nullopt : std::optional(Spread::of(all));
}

}  // namespace telar::bench
