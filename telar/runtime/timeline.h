#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "telar/device/device.h"
#include "telar/observe/trace.h"
#include "telar/runtime/phases.h"

namespace telar {

/// What one replica does in its training steps: intervals without gap and without overlap, because each begins where the one before
/// it ended. So at each boundary the clock is read once, and the phases of a step add up to the step.
///
/// Its memory is reserved when it is made; recording neither allocates nor locks. Used by one thread at a time.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  /// Keeps the single intervals of the first `steps` steps, so long as they are no more than `intervals`; of all steps the sums.
  Timeline(int64_t steps, size_t intervals);

  /// Between begin() and end(): nothing else is recorded.
  bool in_step() const { return in_step_; }
  void begin(Time start);
  /// From the last boundary until now, or until then, the replica did this. Names must live as long as the timeline.
  void did(StepPhase phase, const char* what) { add(Clock::now(), phase, nullptr, what); }
  void did(StepPhase phase, const char* what, Time until) { add(until, phase, nullptr, what); }
  void did(const OperationName& operation) {
    add(Clock::now(), operation.backward ? StepPhase::backward : StepPhase::forward, &operation, "");
  }
  /// What the replica spent on this step. The time since its last boundary it waited for others.
  PhaseTimes end(Time until);

  /// A sum over the group began. Sums are made one after the other, in the order in which they began.
  void sum_began(Time start);
  /// So many of those begun since the last sums_finished() are complete.
  void sums_complete(size_t count, Time now);
  void sums_finished();
  /// A call of the group that the replica waits in.
  void called_group(const char* what, Time start, Time end);

  /// Seconds of each operation that was kept, in order.
  std::vector<OperationTime> operations() const;
  /// What was kept, by microseconds since `zero`: the replica, and its communication where it has some.
  std::vector<TraceRow> rows(const std::string& name, Time zero) const;
  /// Steps that were kept whole.
  int64_t kept_steps() const { return kept_steps_; }

 private:
  struct Interval {
    Time start;
    Time end;
    const OperationName* operation;  ///< null: `what`
    const char* what;
    StepPhase phase;
  };
  struct Communication {
    Time start;
    Time end;
    const char* what;
    size_t bucket;
  };
  void add(Time until, StepPhase phase, const OperationName* operation, const char* what);
  void keep(const Communication& communication);
  bool keeping() const { return steps_ <= most_steps_; }

  int64_t most_steps_;
  int64_t steps_ = 0;
  int64_t kept_steps_ = 0;
  bool in_step_ = false;
  bool complete_ = true;  ///< nothing of this step was left out
  Time step_start_;
  Time last_;
  PhaseTimes times_;
  std::vector<Interval> intervals_;
  std::vector<Communication> communication_;
  std::vector<Time> sums_;  ///< when those since the last sums_finished() began
  size_t sums_complete_ = 0;
  Time last_sum_;
};

}  // namespace telar
