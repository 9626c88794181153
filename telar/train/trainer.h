#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/core/error.h"
#include "telar/data/assignment.h"
#include "telar/data/dataset.h"
#include "telar/nn/schedule.h"
#include "telar/runtime/session.h"
#include "telar/train/training_observer.h"

namespace telar {

/// Which epoch is the best, and when there is no use in going on.
struct EarlyStopping {
  std::string metric =
      "loss";            ///< of the validation samples; "loss" is better when lower, all others when higher
  int64_t patience = 0;  ///< epochs without a better value after which training ends; 0: never
};

/// Steps that are made elsewhere, by workers with parameter servers; the trainer's own session then only evaluates.
class RemoteSteps {
 public:
  virtual ~RemoteSteps() = default;
  /// Lets the workers make steps [first, steps) of an epoch.
  virtual void begin_epoch(uint32_t epoch, int64_t first, int64_t steps) = 0;
  /// The steps that were completed since the last call; waits a little for the first.
  virtual std::vector<StepDone> wait() = 0;
  virtual bool epoch_finished() = 0;
  /// Lets the workers finish what they have begun, and begin nothing. `stopping`: for good, so that workers who do not finish are not
  /// waited for for ever.
  virtual void drain(bool stopping) = 0;
  /// Steps of the epoch before which all are done.
  virtual int64_t steps_done() = 0;
  /// Brings the workers' state into the session.
  virtual void fetch(Session& session) = 0;
};

struct TrainerOptions {
  int64_t epochs = 10;
  int64_t batch = 32;  ///< samples of a step, over all replicas
  int64_t evaluation_batch = 256;
  Schedule schedule = {};
  uint64_t seed = 0;  ///< of the order of samples and augmentation
  bool shuffle = true;
  int64_t together = 1;  ///< samples that stay together when they are shuffled (FixedSlice)
  int loader_threads = 1;
  int prefetch = 4;
  EarlyStopping early_stopping = {};
  Part part = {};  ///< of each batch that this process has
  /// After so many nothing is computed ahead, so that a checkpoint can be of one moment; steps that are made elsewhere stand still after
  /// about so many. 0: never.
  int64_t pause_steps = 0;
};

/// Why fit() returned.
enum class FitOutcome : uint8_t {
  finished,  ///< all epochs done, or stopped early
  stopped    ///< `stop_requested` said so; the state is that of a step boundary
};

/// The training loop over a session: epochs, validation, learning rate, early stopping. Knows neither device nor strategy.
///
///     Trainer trainer(*session, {.epochs = 3, .batch = 64, .schedule = {.base = 0.05}});
///     trainer.fit(*train, validation.get());
///     const std::vector<double> means = trainer.evaluate(*test);  // in the order of session->metric_names()
class Trainer {
 public:
  /// Throws Error (user) for options out of range or a metric that the session does not have.
  Trainer(Session& session, TrainerOptions options);

  /// Trains from the present state to the end. `validation` may be null. Observers are called in order.
  /// Throws Error (run) when a loss is not finite, naming step and layer; the state is then that before the step.
  FitOutcome fit(const Dataset& train, const Dataset* validation,
                 const std::vector<TrainingObserver*>& observers = {},
                 const std::function<bool()>& stop_requested = {});

  /// Means of every metric over all samples, in evaluation mode.
  std::vector<double> evaluate(const Dataset& data) const;

  /// From now on the steps are made there; it must outlive the calls of fit().
  void make_steps_with(RemoteSteps& remote) { remote_ = &remote; }

  const TrainingState& state() const { return state_; }
  /// Goes on from here: a state that belongs to the parameters that the session holds now.
  void restore(TrainingState state) { state_ = std::move(state); }
  /// Seconds of each step of this process, with the wait for its data.
  const std::vector<float>& step_seconds() const { return step_seconds_; }
  /// Of each of these steps, what replicas spent on each other.
  const std::vector<CommunicationTime>& communication() const { return communication_; }
  /// Of each of these steps, what it went into; empty unless the session records phases.
  const std::vector<PhaseTimes>& phases() const { return phases_; }

 private:
  struct Epoch;
  bool run_epoch(Epoch& epoch);
  void collect(Epoch& epoch, bool all, std::chrono::steady_clock::time_point& start);
  Error not_finite(Epoch& epoch);
  bool run_remote_epoch(Epoch& epoch);
  bool make_remote_steps(const Epoch& epoch, int64_t before);
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
  int64_t next_pause_ = 0;         ///< the step at which they are to stand still; 0: not known yet
  std::vector<float> step_seconds_;
  std::vector<CommunicationTime> communication_;
  std::vector<PhaseTimes> phases_;
};

}  // namespace telar
