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

std::optional<double> seconds_to(const TrainingCurve& curve, const Measure& measure, double value) {
  for (const CurvePoint& epoch : curve.epochs)
    if (epoch.*measure.of && !measure.better(value, *(epoch.*measure.of))) return epoch.seconds;
  return std::nullopt;
}

}  // namespace

double chance(double accuracy, const Judges& judges) {
  return judges.samples < 1 ? 0 : 2 * std::sqrt(2 * accuracy * (1 - accuracy) / judges.samples);
}

std::optional<double> final_value(const Learned& learned, const Measure& measure) {
  std::vector<double> all;
  for (const TrainingRun& run : learned.rounds)
    if (!run.curve.epochs.empty() && run.curve.epochs.back().*measure.of)
      all.push_back(*(run.curve.epochs.back().*measure.of));
  return all.empty() ? std::nullopt : std::optional(Spread::of(all).median);
}

std::optional<double> reached_value(const Learned& learned, const Measure& measure) {
  std::optional<double> worst;
  for (const TrainingRun& run : learned.rounds) {
    std::optional<double> best;
    for (const CurvePoint& epoch : run.curve.epochs) {
      const std::optional<double>& value = epoch.*measure.of;
      if (value && (!best || measure.better(*value, *best))) best = value;
    }
    if (!best) return std::nullopt;
    if (!worst || measure.better(*worst, *best)) worst = best;
  }
  return worst;
}

std::optional<Spread> seconds_to(const Learned& learned, const Measure& measure, double value) {
  std::vector<double> all;
  for (const TrainingRun& run : learned.rounds) {
    const auto seconds = seconds_to(run.curve, measure, value);
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
