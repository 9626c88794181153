#pragma once

#include <algorithm>
#include <optional>

namespace telar {

/// How long a run that is being stopped waits for the steps that its workers have begun: as long as one is
/// completed every 20 seconds, or every three times the duration of the longest one. Without a clock.
class DrainPatience {
 public:
  /// A range begins, in which the run is not being stopped.
  void begin() { waits_since_.reset(); }
  void drain(double now) { waits_since_ = now; }
  bool drains() const { return waits_since_.has_value(); }
  /// A step is completed that took so long.
  void step(double now, double seconds) {
    longest_ = std::max(longest_, seconds);
    if (waits_since_) waits_since_ = now;
  }
  bool over(double now) const { return waits_since_ && now - *waits_since_ >= seconds(); }
  double seconds() const { return std::max(kLeast, 3 * longest_); }

 private:
  static constexpr double kLeast = 20;
  std::optional<double> waits_since_;  ///< draining: when the last step was completed
  double longest_ = 0;
};

}  // namespace telar
