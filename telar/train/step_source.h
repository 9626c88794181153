#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "telar/data/batch_source.h"
#include "telar/nn/schedule.h"
#include "telar/runtime/session.h"
#include "telar/train/run_losses.h"
#include "telar/train/training_observer.h"

namespace telar {

/// Consecutive steps of an epoch.
struct StepRange {
  EpochStart epoch;
  int64_t first = 0;   ///< steps of the epoch that are done
  int64_t end = 0;     ///< up to the end of the epoch, or to a step before which the training pauses
  int64_t before = 0;  ///< steps of the training before this epoch
  Position position;   ///< where step `first` begins in the source of the samples; empty: it can be found
};

struct CompletedStep {
  int64_t step = 0;  ///< in the epoch, from 0
  int64_t samples = 0;
  std::vector<double> metrics;  ///< sums over the samples
  /// The same before the step, in evaluation mode (StreamEvaluationOptions::separate_pass); empty: not asked.
  std::vector<double> tested = {};
  Position at = {};            ///< where it begins in the source of the samples
  Position after = {};         ///< where it ends; both empty: the source finds steps by their numbers
  LatencyCounts latency = {};  ///< from the arrival of samples (Batch::arrived) to the end of the step
  CommunicationTime communication = {};             ///< of this process
  std::optional<PhaseTimes> phases = std::nullopt;  ///< of this process, if its session records them
};

/// Makes the training steps that a Trainer counts: a session (SessionSteps) or the workers of parameter
/// servers (ClusterRun, ThreadCluster). Steps may be completed in any order.
///
///     steps.begin(range);
///     for (bool more = true; more;) {
///       more = !steps.finished();
///       for (const CompletedStep& step : steps.wait()) count(step);
///     }
///     steps.fetch(session);
class StepSource {
 public:
  virtual ~StepSource() = default;
  /// Starts on these steps. The range before must be finished.
  virtual void begin(const StepRange& range) = 0;
  /// The steps completed since the last call; waits briefly for the first. Throws Error (run) with step and
  /// layer if a loss is not finite; nothing was updated by that step.
  virtual std::vector<CompletedStep> wait() = 0;
  /// Whether no step of the range will be completed after those that the next wait() returns: all are done,
  /// or those that had begun when it was drained, or the samples have ended.
  virtual bool finished() = 0;
  /// Starts no new step, and finishes those that have begun. It need not wait indefinitely for workers that
  /// do not finish.
  virtual void drain() = 0;
  /// The number of steps of the epoch up to which all are done.
  virtual int64_t steps_done() = 0;
  /// Where the step after these begins, if steps are done in any order and the source does not find them.
  virtual Position position() { return {}; }
  /// Copies the state after these steps into the session, if parameter servers have it, and returns the
  /// number of updates that have led to it.
  virtual std::optional<int64_t> fetch(Session& session) = 0;
  /// What killed processes have cost the training so far; empty: they cost nothing but the run.
  virtual std::optional<RunLosses> losses() const { return {}; }
};

/// The learning rate of a step of an epoch. The schedule follows the epochs: steps in total are another
/// number once a resumed run has changed its batch.
inline double learning_rate_in_epoch(const Schedule& schedule, const EpochStart& epoch, int64_t step) {
  return epoch.rate_factor * learning_rate(schedule, epoch.epoch * epoch.steps + step + 1);
}

}  // namespace telar
