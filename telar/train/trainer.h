#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/core/error.h"
#include "telar/data/assignment.h"
#include "telar/data/batch_source.h"
#include "telar/data/dataset.h"
#include "telar/nn/metrics.h"
#include "telar/nn/schedule.h"
#include "telar/runtime/session.h"
#include "telar/train/early_stopping.h"
#include "telar/train/step_source.h"
#include "telar/train/step_times.h"
#include "telar/train/training_observer.h"

namespace telar {

struct TrainerOptions {
  int64_t epochs = 10;
  int64_t batch = 32;       ///< samples in a step, over all replicas
  int64_t epoch_steps = 0;  ///< of a source without a known end
  int64_t evaluation_batch = 256;
  Schedule schedule = {};
  uint64_t seed = 0;  ///< for the order of samples and for augmentation
  bool shuffle = true;
  int64_t together = 1;  ///< samples that stay together in a shuffle (FixedSlice)
  int loader_threads = 1;
  int prefetch = 4;
  EarlyStopping early_stopping = {};
  std::optional<Figures> figures = {};  ///< that follow from the session's metrics; absent: their means
  Part part = {};                       ///< this process's part of each batch
  /// Training pauses after each multiple of this number of steps: no later step has begun, so observers can
  /// save the state (TrainingObserver::paused). 0: never.
  int64_t pause_steps = 0;
  /// Asked after each step; training also pauses when it returns true. With several processes it returns the
  /// same in each. Not with others' steps (make_steps_with()): their workers may wait for samples, and what
  /// has begun must be finished for a pause. Empty: never.
  std::function<bool()> pause_requested = {};
  std::optional<StreamEvaluationOptions> evaluation = {};  ///< with each batch, before it is trained on
  /// Of a stream: the damaged messages in a step. Empty: there are none.
  std::function<int64_t(const CompletedStep&)> left_out = {};
};

/// Why fit() returned.
enum class FitOutcome : uint8_t {
  finished,  ///< all epochs done, or stopped early
  stopped    ///< `stop_requested` returned true; the state is at a step boundary, also before a validation
};

/// The training loop over a session: epochs, validation, learning rate, early stopping. Device and strategy
/// do not matter to it.
///
///     Trainer trainer(*session, {.epochs = 3, .batch = 64, .schedule = {.base = 0.05}});
///     trainer.fit(*train, validation.get());
///     const std::vector<double> means = trainer.evaluate(*test);  // in the order of session->metric_names()
class Trainer {
 public:
  /// Throws Error (user) for options out of range or an unknown metric.
  Trainer(Session& session, TrainerOptions options);

  /// Trains from the current state to the end. `validation` may be null. Observers are called in order.
  /// Throws Error (run) with step and layer if a loss is not finite; the state is then the one before that
  /// step.
  FitOutcome fit(const Dataset& train, const Dataset* validation,
                 const std::vector<TrainingObserver*>& observers = {},
                 const std::function<bool()>& stop_requested = {});

  /// The same with batches from any source. Of one without an end, or whose end is not known, an epoch has
  /// TrainerOptions::epoch_steps steps and continues where the one before ended; the training ends with the
  /// source if that comes first. Throws Error (user) also for a state whose position is not one of the
  /// source.
  FitOutcome fit(const BatchSource& train, const BatchSource* validation,
                 const std::vector<TrainingObserver*>& observers = {},
                 const std::function<bool()>& stop_requested = {});

  /// The figures of all samples, in evaluation mode.
  std::vector<double> evaluate(const Dataset& data) const { return *evaluate(data, {}); }
  /// The same; none if `stop_requested` returns true, which is asked before each batch.
  std::optional<std::vector<double>> evaluate(const Dataset& data,
                                              const std::function<bool()>& stop_requested) const;
  /// The same over pass 0 of a source, which must have an end.
  std::optional<std::vector<double>> evaluate(const BatchSource& source,
                                              const std::function<bool()>& stop_requested) const;

  /// Lets others make the steps from now on, which must outlive all calls of fit(). The session then only
  /// evaluates.
  void make_steps_with(StepSource& others) { others_ = &others; }

  /// Changes TrainerOptions::part for later calls.
  void set_part(const Part& part) { options_.part = part; }

  const Figures& figures() const { return *options_.figures; }
  const TrainingState& state() const { return state_; }
  /// Continues from a state, which must belong to the session's current parameters. Throws Error (user) for
  /// one within an epoch whose samples another version of telar has shuffled in another order.
  void restore(TrainingState state);
  /// Observers have heard, in another process, of so many steps and epochs.
  void told(int64_t steps, int64_t epochs) {
    told_steps_ = steps;
    told_epochs_ = epochs;
  }
  /// The times of the steps of this process.
  const StepTimes& times() const { return times_; }

 private:
  struct Epoch;
  void check_others() const;
  const PlateauSchedule* plateau_schedule() const;  ///< null: the schedule is another one
  EpochStart start_of_epoch(const BatchSource& train) const;
  bool run_epoch(Epoch& epoch);
  enum class StepsEnd : uint8_t { all, paused, stopped };
  StepsEnd make_steps(Epoch& epoch);
  int64_t next_pause(const EpochStart& epoch) const;
  void count(const Epoch& epoch, const CompletedStep& step, double seconds);
  const DriftEvent* add_to_evaluation(const CompletedStep& step);
  std::vector<double> figures_of(std::vector<double> sums, int64_t samples) const;
  std::optional<EpochReport> finish_epoch(int64_t steps, const BatchSource* validation,
                                          const std::function<bool()>& stop_requested);

  Session& session_;
  TrainerOptions options_;
  size_t deciding_metric_ = 0;
  TrainingState state_;
  StepSource* others_ = nullptr;  ///< null: the session makes the steps
  StepTimes times_;
  // Of which observers have heard. A state that is restored may be one from before.
  int64_t told_steps_ = 0;
  int64_t told_epochs_ = 0;
};

}  // namespace telar
