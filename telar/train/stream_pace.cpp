#include "telar/train/stream_pace.h"

#include <cmath>

namespace telar {

namespace {

constexpr double kPaceHalfLife = 5;

}  // namespace

void StreamPace::step_done(const StepReport& report, const TrainingState& state) {
  lag_ = state.position.bytes.empty() ? std::nullopt : behind_(state.position);
  const double faded = std::exp2(-report.seconds / kPaceHalfLife);
  samples_ = faded * samples_ + static_cast<double>(report.samples);
  seconds_ = faded * seconds_ + report.seconds;
}

std::optional<double> StreamPace::lag_seconds() const {
  if (!lag_ || rate() <= 0) return std::nullopt;
  return static_cast<double>(*lag_) / rate();
}

}  // namespace telar
