#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "telar/device/device.h"
#include "telar/observe/trace.h"
#include "telar/runtime/phases.h"

namespace telar {

/// What one replica does in its training steps, as intervals without gaps or overlaps: each begins where the
/// previous one ended. The clock is read once at each boundary, so the phases of a step add up to the step.
///
/// The constructor reserves all memory; recording neither allocates nor locks. Used by one thread at a time.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  /// Keeps the intervals of the first `steps` steps, at most `intervals` of them, and the sums over all
  /// steps.
  Timeline(int64_t steps, size_t intervals);

  /// True between begin() and end(); nothing is recorded otherwise.
  bool in_step() const { return in_step_; }
  void begin(Time start);
  /// The replica did this from the last boundary until now or `until`. Names must outlive the timeline.
  void did(StepPhase phase, const char* what) { add(Clock::now(), phase, nullptr, what); }
  void did(StepPhase phase, const char* what, Time until) { add(until, phase, nullptr, what); }
  void did(const OperationName& operation) {
    add(Clock::now(), operation.backward ? StepPhase::backward : StepPhase::forward, &operation, "");
  }
  /// Ends the step and returns its phase times. The time since the last boundary counts as waiting for
  /// others.
  PhaseTimes end(Time until);

  /// A sum over the group has begun. Sums run one after the other, in the order in which they began.
  void sum_began(Time start);
  /// `count` of the sums begun since the last sums_finished() are complete.
  void sums_complete(size_t count, Time now);
  void sums_finished();
  /// A call of the group in which the replica waits.
  void called_group(const char* what, Time start, Time end);

  /// Seconds of each kept operation, in order.
  std::vector<OperationTime> operations() const;
  /// What was kept, in microseconds since `zero`: a row for the replica, and one for its communication if
  /// there was any.
  std::vector<TraceRow> rows(const std::string& name, Time zero) const;
  /// Number of steps that were kept completely.
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
  bool complete_ = true;  ///< nothing of this step was omitted
  Time step_start_;
  Time last_;
  PhaseTimes times_;
  std::vector<Interval> intervals_;
  std::vector<Communication> communication_;
  std::vector<Time> sums_;  ///< start times of the sums since the last sums_finished()
  size_t sums_complete_ = 0;
  Time last_sum_;
};

}  // namespace telar
