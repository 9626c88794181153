#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "telar/runtime/session.h"
#include "telar/runtime/step_metrics.h"

namespace telar {

/// Steps queued on a device beside the host whose results are still to come, at most Session::kStepsAhead.
/// Results arrive in the order in which the steps began.
class StepsAhead {
 public:
  /// Both must outlive this object.
  StepsAhead(const Device& device, StepMetrics& metrics);

  /// Call after queueing a step on the device. Starts the copy of its metrics.
  void begun();
  /// Whether finished() must be called before the next begun().
  bool full() const { return steps_.size() == Session::kStepsAhead; }
  /// Whether finished() would return without waiting.
  bool oldest_is_done() const { return !steps_.empty() && steps_.front().copy->done(); }
  /// Waits for the oldest step. After a step that was not finite, the steps begun after it update nothing.
  /// Throws Error (run) if there is no step.
  StepResult finished();

 private:
  struct Returning {
    std::unique_ptr<PendingCopy> copy;
    std::span<float> values;  ///< metrics, and whether the state is non-finite
  };

  StepMetrics& metrics_;
  std::vector<float> returned_;  ///< a ring buffer: the values of each step
  std::unique_ptr<PinnedHost> pinned_;
  std::deque<Returning> steps_;
  size_t begun_ = 0;
};

}  // namespace telar
