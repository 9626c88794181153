#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace telar {

/// The part of the time in which a pipeline's stages have nothing to do, from 0 to 1: from the start of a step until the last
/// stage has its gradients, without the update.
struct Bubble {
  double measured = 0;
  /// (p − 1) / (m + p − 1) of p stages and m micro-batches: all stages equal, communication free.
  double formula = 0;
};

/// Adds up how long the stages of a pipeline were busy.
class BubbleMeter {
 public:
  BubbleMeter(int64_t stages, int64_t micro_batches) : stages_(stages), micro_batches_(micro_batches) {}

  /// A step: its length until the last stage had its gradients, and the sum of what the stages computed. The first three are left
  /// out: they compile kernels.
  void record(std::chrono::duration<double> step, double busy_seconds);
  /// None before a step has been counted.
  std::optional<Bubble> bubble() const;

 private:
  int64_t stages_;
  int64_t micro_batches_;
  int64_t steps_ = 0;
  double busy_ = 0;       ///< seconds
  double available_ = 0;  ///< seconds of the steps, times stages
};

}  // namespace telar
