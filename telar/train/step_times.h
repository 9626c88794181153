#pragma once

#include <cstdint>
#include <vector>

#include "telar/runtime/communication_time.h"
#include "telar/runtime/phases.h"

namespace telar {

/// The times of the steps of a training. Of the last ones each is kept, so that a training without an end
/// takes no more and more memory.
class StepTimes {
 public:
  /// At least so many steps are kept, and at most twice as many.
  static constexpr size_t kKept = 1 << 16;

  void add(double seconds, const CommunicationTime& communication, const PhaseTimes* phases);

  int64_t steps() const { return steps_; }
  double seconds() const { return seconds_; }  ///< of all steps
  /// Of each kept step, in order: its seconds, including the wait for its data; the time that it spent on
  /// communication between replicas; and its phases, which are empty unless the session records them.
  const std::vector<float>& kept_seconds() const { return kept_seconds_; }
  const std::vector<CommunicationTime>& communication() const { return communication_; }
  const std::vector<PhaseTimes>& phases() const { return phases_; }

 private:
  int64_t steps_ = 0;
  double seconds_ = 0;
  std::vector<float> kept_seconds_;
  std::vector<CommunicationTime> communication_;
  std::vector<PhaseTimes> phases_;
};

}  // namespace telar
