#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "telar/train/training_observer.h"

namespace telar {

/// How fast a training follows its stream, and how far it is behind. Comes before the observers that show it.
class StreamPace final : public TrainingObserver {
 public:
  using Behind = std::function<std::optional<int64_t>(const Position&)>;

  /// `behind`: messages that are waiting after a position, if it is known.
  explicit StreamPace(Behind behind) : behind_(std::move(behind)) {}

  void step_done(const StepReport& report, const TrainingState& state) override;

  /// Messages that are waiting; none if it is not known.
  std::optional<int64_t> lag() const { return lag_; }
  /// The seconds in which the training would use these at its present rate; none without a rate.
  std::optional<double> lag_seconds() const;
  /// Samples a second, including the wait for them: a mean that halves the weight of a step every 5 seconds.
  double rate() const { return seconds_ > 0 ? samples_ / seconds_ : 0; }

 private:
  Behind behind_;
  std::optional<int64_t> lag_;
  double samples_ = 0;
  double seconds_ = 0;
};

}  // namespace telar
