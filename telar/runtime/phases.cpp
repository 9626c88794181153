#include "telar/runtime/phases.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "telar/core/median.h"

namespace telar {

namespace {

constexpr std::array<const char*, kStepPhases> kNames{"load",     "copy", "forward", "backward",
                                                      "exchange", "wait", "update",  "other"};

nlohmann::ordered_json milliseconds(const PhaseTimes& times) {
  nlohmann::ordered_json json;
  for (size_t p = 0; p < kStepPhases; ++p) json[kNames[p]] = 1e3 * times.seconds[p];
  json["step"] = 1e3 * times.step;
  return json;
}

PhaseTimes times_from(const nlohmann::json& json) {
  PhaseTimes times;
  for (size_t p = 0; p < kStepPhases; ++p) times.seconds[p] = json.at(kNames[p]).get<double>() / 1e3;
  times.step = json.at("step").get<double>() / 1e3;
  return times;
}

}  // namespace

const char* name_of(StepPhase phase) { return kNames[static_cast<size_t>(phase)]; }

PhaseTimes mean_of(std::span<const PhaseTimes> replicas) {
  PhaseTimes mean;
  const auto count = static_cast<double>(replicas.size());
  for (const PhaseTimes& times : replicas) {
    for (size_t p = 0; p < kStepPhases; ++p) mean.seconds[p] += times.seconds[p] / count;
    mean.step += times.step / count;
  }
  return mean;
}

PhaseSummary summary_of(std::span<const PhaseTimes> steps) {
  constexpr size_t kWarmUp = 3;
  PhaseSummary summary;
  if (steps.empty()) return summary;
  const size_t left_out = steps.size() > kWarmUp ? kWarmUp : 0;
  summary.left_out = static_cast<int64_t>(left_out);
  steps = steps.subspan(left_out);
  summary.steps = static_cast<int64_t>(steps.size());
  summary.mean = mean_of(steps);
  std::vector<double> values(steps.size());
  const auto median = [&](const auto& value) {
    std::transform(steps.begin(), steps.end(), values.begin(), value);
    return median_of(values);
  };
  for (size_t p = 0; p < kStepPhases; ++p)
    summary.median.seconds[p] = median([p](const PhaseTimes& times) { return times.seconds[p]; });
  summary.median.step = median([](const PhaseTimes& times) { return times.step; });
  return summary;
}

PhaseSummary mean_of(std::span<const PhaseSummary> processes) {
  PhaseSummary summary = processes.front();
  std::vector<PhaseTimes> means;
  std::vector<PhaseTimes> medians;
  for (const PhaseSummary& process : processes) {
    means.push_back(process.mean);
    medians.push_back(process.median);
  }
  summary.mean = mean_of(means);
  summary.median = mean_of(medians);
  return summary;
}

std::string to_json(const PhaseSummary& summary) {
  const nlohmann::ordered_json json = {{"steps", summary.steps},
                                       {"left_out", summary.left_out},
                                       {"mean_ms", milliseconds(summary.mean)},
                                       {"median_ms", milliseconds(summary.median)}};
  return json.dump();
}

PhaseSummary phase_summary_from_json(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  return {json.at("steps"), json.at("left_out"), times_from(json.at("mean_ms")),
          times_from(json.at("median_ms"))};
}

}  // namespace telar
