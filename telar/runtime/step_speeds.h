#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "telar/runtime/bubble.h"
#include "telar/runtime/mixed_speed.h"
#include "telar/runtime/replica.h"
#include "telar/runtime/shares.h"

namespace telar {

/// What a session learns from the duration of its steps: the best share of a batch for each replica, whether
/// CPUs help GPUs, and how long a pipeline's stages are idle.
class StepSpeeds {
 public:
  /// `shares`: initial shares of the replicas, fixed unless `measured`. `on_gpu`: for each replica, whether
  /// it runs on a GPU. `pipeline`: no micro-batches without one.
  /// `least`: see MeasuredShares.
  StepSpeeds(std::vector<double> shares, bool measured, const std::vector<bool>& on_gpu,
             const PipelineSize& pipeline, int64_t least);

  /// Records a step from `start` to `end`: the replicas' parts of the batch and their times.
  void record(std::span<const BatchView> parts, std::span<const WorkerStep> steps,
              std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end);

  const std::vector<double>& shares() const { return shares_.shares(); }
  std::optional<MixedSpeed> mixed() const { return mixed_.speed(); }
  std::optional<Bubble> bubble() const { return bubble_ ? bubble_->bubble() : std::nullopt; }

 private:
  MeasuredShares shares_;
  bool measured_;
  MixedSpeedMeter mixed_;
  std::optional<BubbleMeter> bubble_;
};

}  // namespace telar
