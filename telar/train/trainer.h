#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/core/error.h"
#include "telar/data/assignment.h"
#include "telar/data/batch_source.h"
#include "telar/data/dataset.h"
#include "telar/nn/schedule.h"
#include "telar/runtime/session.h"
#include "telar/train/training_observer.h"

namespace telar {

/// Selects the best epoch, and ends training when it no longer improves.
struct EarlyStopping {
  std::string metric =
      "loss";            ///< on the validation samples; lower is better for "loss", higher for all others
  int64_t patience = 0;  ///< epochs without improvement before training ends; 0: no limit
};

/// Training steps made by the workers of parameter servers. The trainer's own session then only evaluates.
class RemoteSteps {
 public:
  virtual ~RemoteSteps() = default;
  /// Starts the workers on steps [first, steps) of an epoch.
  virtual void begin_epoch(uint32_t epoch, int64_t first, int64_t steps) = 0;
  /// The steps completed since the last call; waits briefly for the first.
  virtual std::vector<StepDone> wait() = 0;
  virtual bool epoch_finished() = 0;
  /// Lets the workers finish the steps that they have begun, without starting new ones. `stopping`: training
  /// ends, so do not wait indefinitely for workers that do not finish.
  virtual void drain(bool stopping) = 0;
  /// The number of steps of the epoch up to which all are done.
  virtual int64_t steps_done() = 0;
  /// Copies the workers' state into the session.
  virtual void fetch(Session& session) = 0;
};

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
  Part part = {};  ///< this process's part of each batch
  /// A session computes no steps ahead across a multiple of this number, so that a checkpoint there is
  /// consistent. Remote steps pause about this often. 0: never.
  int64_t pause_steps = 0;
};

/// Why fit() returned.
enum class FitOutcome : uint8_t {
  finished,  ///< all epochs done, or stopped early
  stopped    ///< `stop_requested` returned true; the state is at a step boundary
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
  FitOutcome fit(const BatchSource& train, const Dataset* validation,
                 const std::vector<TrainingObserver*>& observers = {},
                 const std::function<bool()>& stop_requested = {});

  /// The mean of every metric over all samples, in evaluation mode.
  std::vector<double> evaluate(const Dataset& data) const;

  /// Makes steps with `remote` from now on; it must outlive all calls of fit().
  void make_steps_with(RemoteSteps& remote) { remote_ = &remote; }

  const TrainingState& state() const { return state_; }
  /// Continues from a state, which must belong to the session's current parameters. Throws Error (user) for
  /// one within an epoch whose samples another version of telar has shuffled in another order.
  void restore(TrainingState state);
  /// Seconds of each step of this process, including the wait for its data.
  const std::vector<float>& step_seconds() const { return step_seconds_; }
  /// The time that each of these steps spent on communication between replicas.
  const std::vector<CommunicationTime>& communication() const { return communication_; }
  /// The phases of each of these steps; empty unless the session records them.
  const std::vector<PhaseTimes>& phases() const { return phases_; }

 private:
  struct Epoch;
  EpochStart start_of_epoch(const BatchSource& train) const;
  Position next_position(const BatchSource& train) const;
  bool run_epoch(Epoch& epoch);
  void collect(Epoch& epoch, bool all, std::chrono::steady_clock::time_point& start);
  Error not_finite(Epoch& epoch);
  bool run_remote_epoch(Epoch& epoch);
  bool make_remote_steps(const Epoch& epoch);
  float learning_rate_at(const Epoch& epoch, int64_t step_in_epoch) const;
  int64_t after_pause() const;
  void count(const Epoch& epoch, int64_t samples, const std::vector<double>& sums, float learning_rate,
             double seconds);
  EpochReport finish_epoch(const Dataset* validation);
  void judge(EpochReport& report);

  Session& session_;
  TrainerOptions options_;
  size_t deciding_metric_ = 0;
  TrainingState state_;
  RemoteSteps* remote_ = nullptr;  ///< null: the session makes the steps
  int64_t next_pause_ = 0;         ///< the step of the next pause; 0: not known yet
  std::vector<float> step_seconds_;
  std::vector<CommunicationTime> communication_;
  std::vector<PhaseTimes> phases_;
};

}  // namespace telar
