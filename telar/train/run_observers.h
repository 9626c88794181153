#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>

#include "telar/comm/processes.h"
#include "telar/nn/metrics.h"
#include "telar/observe/energy.h"
#include "telar/observe/metrics_log.h"
#include "telar/observe/progress.h"
#include "telar/observe/tensorboard.h"
#include "telar/train/checkpoint.h"
#include "telar/train/stream_pace.h"
#include "telar/train/training_observer.h"

namespace telar {

/// The event files of a run; each may be null.
struct EventFiles {
  std::unique_ptr<TensorBoardWriter> by_steps = {};
  std::unique_ptr<TensorBoardWriter> by_samples =
      {};  ///< of a stream: at each step, with its samples in total
};

/// Writes metrics.jsonl and optionally TensorBoard events, every `every` steps and after each epoch.
/// A step: {"kind": "step", "step", "epoch", "samples", "seconds", "loss", …, "learning_rate",
/// "images_per_second"}.
/// Of a stream, also "window_loss", "fading_loss", … (StreamEvaluation), "lag" and "lag_seconds" (StreamPace),
/// as far as they are known.
/// A drift: {"kind": "drift", "step", "epoch", "samples", "seconds", "value", "window", "rate_factor"}.
/// An epoch: {"kind": "epoch", "step", "epoch", "samples", "seconds", "train_loss", …, "validation_loss", …}.
/// Epochs count from 1. "samples" and "seconds" are totals over all training steps of the run, including
/// those before a resume; the time of validation is not included. Lines that cannot be written (a full disk)
/// do not end the training: they are missing, and `warn` is told once.
class LogObserver final : public TrainingObserver {
 public:
  /// `pace`: of a stream, and it comes before this observer; otherwise null.
  LogObserver(MetricsLog log, EventFiles events, Figures figures, int64_t every,
              std::function<void(const std::string&)> warn, const StreamPace* pace = nullptr);

  void step_done(const StepReport& report, const TrainingState& state) override;
  void epoch_done(const EpochReport& report, const TrainingState& state) override;
  /// Writes the figures of the test samples at the end of the run.
  void test_done(const std::vector<double>& values, const TrainingState& state);
  /// Writes what a resumed run has changed: {"kind": "resume", …, "changes": "training.batch: 32 → 64; …"}.
  void resumed(const std::vector<std::string>& changes, const TrainingState& state);
  /// Writes that processes were lost or have come, and with which step the run goes on: {"kind": "recovery",
  /// …, "lost": "rank 2 (host:pid)", "come": "", "processes": 2, "processes_before": 3, "steps_again": 7}.
  /// `before`: 0 where it is not known, and not written.
  void changed(const std::string& lost, const std::string& come, int processes, int before,
               int64_t steps_again, const TrainingState& state);
  /// Waits until all data are on the storage device.
  void sync();

 private:
  using Values = std::vector<std::pair<std::string, double>>;
  void write(const std::string& kind, const TrainingState& state, int64_t epoch, const Values& values,
             const std::vector<MetricField>& lists = {});
  void write_event(const std::string& kind, const TrainingState& state, std::vector<MetricField> fields);
  void add_figures(const std::string& prefix, const std::vector<double>& of, Values& values,
                   std::vector<MetricField>* lists = nullptr) const;
  void add_stream_values(const TrainingState& state, Values& values) const;
  void add_events(const std::string& tag, const TrainingState& state, double value);
  void for_events(const std::function<void(TensorBoardWriter&)>& action);
  void try_to(const std::function<void()>& write);
  MetricsLog log_;
  EventFiles events_;
  Figures figures_;
  int64_t every_;
  std::function<void(const std::string&)> warn_;
  const StreamPace* pace_;
  bool warned_ = false;
};

/// The energy that the whole machine uses in training steps, excluding validation and checkpoints between
/// epochs.
class EnergyObserver final : public TrainingObserver {
 public:
  void epoch_began(const EpochStart& start, const TrainingState& state) override;
  void step_done(const StepReport& report, const TrainingState& state) override;

  /// Joules so far; empty if no meter can be read.
  std::optional<double> joules();
  const std::string& source() const { return meter_.source(); }

 private:
  void stop();
  EnergyMeter meter_;
  std::optional<double> began_;  ///< the reading at the start of an epoch's steps; empty between epochs
  double joules_ = 0;
};

/// Updates a Progress (telar/observe/progress.h).
class ProgressObserver final : public TrainingObserver {
 public:
  /// `pace`: of a stream, and it comes before this observer; otherwise null. `more`: further figures as text;
  /// may be empty.
  ProgressObserver(Progress& progress, Figures figures, const StreamPace* pace = nullptr,
                   std::function<std::string()> more = {});

  void epoch_began(const EpochStart& start, const TrainingState& state) override;
  void step_done(const StepReport& report, const TrainingState& state) override;
  void epoch_done(const EpochReport& report, const TrainingState& state) override;

 private:
  std::optional<double> accuracy_of(const std::vector<double>& values) const;

  Progress& progress_;
  Figures figures_;
  const StreamPace* pace_;
  std::function<std::string()> more_;
};

}  // namespace telar
