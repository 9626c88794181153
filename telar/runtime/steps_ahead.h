#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "telar/runtime/session.h"
#include "telar/runtime/step_metrics.h"

namespace telar {

/// Steps that a device beside the host was told to make and whose results are still to come, Session::kStepsAhead at most. They come in the
/// order in which the steps were begun.
class StepsAhead {
 public:
  /// Both must outlive it.
  StepsAhead(const Device& device, StepMetrics& metrics);

  /// The device was told to make a step: its metrics are now on their way.
  void begun();
  /// Whether the next finished() must come before the next begun().
  bool full() const { return steps_.size() == Session::kStepsAhead; }
  /// Whether the next finished() need not wait.
  bool oldest_is_done() const { return !steps_.empty() && steps_.front().copy->done(); }
  /// Waits for the oldest step. Once one was not finite, nothing is updated by those that were begun after it. Throws Error (run) when there
  /// is none.
  StepResult finished();

 private:
  struct Returning {
    std::unique_ptr<PendingCopy> copy;
    std::span<float> values;  ///< metrics, and whether the state is non-finite
  };

  StepMetrics& metrics_;
  std::vector<float> returned_;  ///< a ring: the values of each step
  std::unique_ptr<PinnedHost> pinned_;
  std::deque<Returning> steps_;
  size_t begun_ = 0;
};

}  // namespace telar
