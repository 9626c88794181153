#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "telar/observe/metrics_log.h"
#include "telar/train/training_observer.h"

namespace telar {

/// What a process has heard of its training since all processes met the last time. If rank 0 is lost, nobody
/// else may have heard of it: whoever goes on with the log writes it. Not of a stream.
class HeldReports final : public TrainingObserver {
 public:
  void step_done(const StepReport& report, const TrainingState& state) override;
  void epoch_done(const EpochReport& report, const TrainingState& state) override;
  /// All processes have met: what they had heard until then, rank 0 has told its observers.
  void clear() { held_.clear(); }
  /// Tells a log what it has not `logged`, which is then up to date.
  void tell(TrainingObserver& log, LoggedSoFar& logged);

 private:
  struct Held {
    int64_t step = 0;   ///< of a step; 0: it is an epoch
    int64_t epoch = 0;  ///< that has ended
    std::function<void(TrainingObserver&)> tell;
  };
  std::vector<Held> held_;
};

}  // namespace telar
