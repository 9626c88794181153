#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace telar {

/// The idle fraction of a pipeline's stages, from 0 to 1. It covers the time from the start of a step until
/// the last stage has its gradients, without the update.
struct Bubble {
  double measured = 0;
  /// (p − 1) / (m + p − 1) for p stages and m micro-batches, with equal stages and free communication.
  double formula = 0;
};

struct PipelineSize {
  int64_t micro_batches = 0;
  int64_t stages = 0;  ///< in all processes together
};

/// Accumulates the busy time of the stages of this process.
class BubbleMeter {
 public:
  BubbleMeter(const PipelineSize& size, int64_t stages_here) : size_(size), stages_here_(stages_here) {}

  /// Records a step: its duration until the last stage has its gradients, and the sum of the stages'
  /// computing times. The first three steps are ignored because they compile kernels.
  void record(std::chrono::duration<double> step, double busy_seconds);
  /// None before a step has been counted.
  std::optional<Bubble> bubble() const;

 private:
  PipelineSize size_;
  int64_t stages_here_;
  int64_t steps_ = 0;
  double busy_ = 0;       ///< seconds
  double available_ = 0;  ///< seconds of the steps × number of stages
};

}  // namespace telar
