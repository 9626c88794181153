#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace telar {

/// Compares a step on CPUs and GPUs together with a step on the GPUs alone.
struct MixedSpeed {
  double together = 0;    ///< seconds of a step, including exchange and update
  double gpus_alone = 0;  ///< estimated seconds for the whole batch on the GPUs, at their measured speed
};

/// Measures MixedSpeed step by step; ignores the first steps, which compile kernels.
class MixedSpeedMeter {
 public:
  /// `on_gpu`: for each replica, whether it runs on a GPU.
  explicit MixedSpeedMeter(std::vector<bool> on_gpu);

  /// Whether there are both CPUs and GPUs.
  bool mixed() const { return mixed_; }
  /// Call after a step with each replica's samples and seconds of computation, and the seconds of the whole
  /// step.
  void record(const std::vector<int64_t>& samples, const std::vector<double>& seconds, double step);
  /// Medians. None before enough steps, or if not mixed().
  std::optional<MixedSpeed> speed() const;

 private:
  std::vector<bool> on_gpu_;
  bool mixed_;
  int64_t steps_ = 0;
  std::vector<double> together_;
  std::vector<double> alone_;
};

}  // namespace telar
