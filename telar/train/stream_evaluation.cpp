#include "telar/train/stream_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "telar/runtime/session.h"

namespace telar {

static_assert(StreamEvaluation::kStepsBegun == static_cast<int64_t>(Session::kStepsAhead));

namespace {

/// The detector's own state; a new one if it is not of this kind, as after a change of the job.
template <typename State>
State& state_of(StreamEvaluation::Detector& detector) {
  if (!std::holds_alternative<State>(detector)) detector = State();
  return std::get<State>(detector);
}

bool is_drift(const AdwinSettings& settings, StreamEvaluation::Detector& detector,
              std::span<const double> values) {
  return state_of<Adwin>(detector).add(settings.delta, values);
}

bool is_drift(const PageHinkleyOptions& options, StreamEvaluation::Detector& detector,
              std::span<const double> values) {
  return state_of<PageHinkley>(detector).add(options, values);
}

/// The errors of the samples of a step, of which only the number is known: spread evenly.
std::vector<double> errors_of(double correct, int64_t samples) {
  const int64_t wrong = samples - std::llround(correct);
  std::vector<double> errors(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples; ++i)
    errors[static_cast<size_t>(i)] = (i + 1) * wrong / samples > i * wrong / samples ? 1 : 0;
  return errors;
}

}  // namespace

bool StreamEvaluation::add(const StreamEvaluationOptions& options, std::span<const double> sums,
                           int64_t samples_of_step, int64_t step, int64_t samples) {
  means.add(options.means, sums, samples_of_step);
  if (!options.drift) return false;
  const DriftOptions& drift = *options.drift;
  const auto watched = [&](double mean) { return drift.is_accuracy ? 1 - mean : mean; };
  const double value = watched(sums[drift.metric] / static_cast<double>(samples_of_step));
  const std::vector<double> values =
      drift.is_accuracy ? errors_of(sums[drift.metric], samples_of_step) : std::vector<double>{value};
  const bool found =
      std::visit([&](const auto& settings) { return is_drift(settings, detector, values); }, drift.detector);
  if (!found) return false;
  ++drift_count;
  if (drifts.size() == kNamedDrifts) drifts.erase(drifts.begin());
  drifts.push_back({step, samples, value, watched(means.windowed()[drift.metric])});
  if (drift.factor != 1) raise_rate(drift, step);
  return true;
}

void StreamEvaluation::raise_rate(const DriftOptions& drift, int64_t step) {
  std::erase_if(raised, [step](const RaisedRate& rate) { return rate.last <= step; });
  const int64_t first = step + kStepsBegun + 1;
  const int64_t last = first + drift.steps - 1;
  if (raised.empty() || raised.back().last < first - 1 || raised.back().factor != drift.factor) {
    if (!raised.empty()) raised.back().last = std::min(raised.back().last, first - 1);
    raised.push_back({first, last, drift.factor});
  } else {
    raised.back().last = std::max(raised.back().last, last);
  }
}

double StreamEvaluation::rate_factor(int64_t step) const {
  for (const RaisedRate& rate : raised)
    if (step >= rate.first && step <= rate.last) return rate.factor;
  return 1;
}

std::string drift_text(const DriftEvent& drift, const StreamEvaluation& evaluation) {
  std::string text = fmt::format("drift after step {}: {:.4f} in this step, {:.4f} in the window", drift.step,
                                 drift.value, drift.window);
  const int64_t first = drift.step + StreamEvaluation::kStepsBegun + 1;
  for (const RaisedRate& rate : evaluation.raised)
    if (rate.first <= first && first <= rate.last)
      text += fmt::format("; the learning rate is multiplied by {} in steps {} to {}", rate.factor,
                          rate.first, rate.last);
  return text;
}

}  // namespace telar
