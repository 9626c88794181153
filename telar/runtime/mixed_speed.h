#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace telar {

/// Whether processors that train together with GPUs help them.
struct MixedSpeed {
  double together = 0;  ///< seconds of a step, exchange and update included
  double gpus_alone =
      0;  ///< seconds that the GPUs would take to compute all of the batch, by the speed at which they compute their part
};

/// Measures it, step by step; the first ones, which compile, are left out.
class MixedSpeedMeter {
 public:
  /// `on_gpu`: of each replica.
  explicit MixedSpeedMeter(std::vector<bool> on_gpu);

  /// Whether there are both.
  bool mixed() const { return mixed_; }
  /// After a step: the samples and the seconds of each replica's computation, and the seconds of the whole step.
  void record(const std::vector<int64_t>& samples, const std::vector<double>& seconds, double step);
  /// Medians; none before enough steps, or without both kinds.
  std::optional<MixedSpeed> speed() const;

 private:
  std::vector<bool> on_gpu_;
  bool mixed_;
  int64_t steps_ = 0;
  std::vector<double> together_;
  std::vector<double> alone_;
};

}  // namespace telar
