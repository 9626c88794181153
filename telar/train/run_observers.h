#pragma once

#include <filesystem>
#include <iosfwd>
#include <memory>
#include <optional>

#include "telar/observe/energy.h"
#include "telar/observe/metrics_log.h"
#include "telar/observe/progress.h"
#include "telar/observe/tensorboard.h"
#include "telar/train/checkpoint.h"
#include "telar/train/training_observer.h"

namespace telar {

/// Writes metrics.jsonl, and TensorBoard events where wanted: every `every` steps and each epoch.
/// Steps: {"kind": "step", "step", "epoch", "samples", "seconds", "loss", …, "learning_rate", "images_per_second"}; epochs: {"kind":
/// "epoch", "step", "epoch", "samples", "seconds", "train_loss", …, "validation_loss", …}. Epochs count from 1; samples and seconds
/// are those of all training steps of the run so far, also of a resumed one (validation takes none of the seconds).
class LogObserver final : public TrainingObserver {
 public:
  LogObserver(MetricsLog log, std::unique_ptr<TensorBoardWriter> tensorboard,
              std::vector<std::string> metrics, int64_t every);

  void step_done(const StepReport& report, const TrainingState& state) override;
  void epoch_done(const EpochReport& report, const TrainingState& state) override;
  /// The test's means at the end.
  void test_done(const std::vector<double>& means, const TrainingState& state);
  /// Waits until everything is on the storage device.
  void sync();

 private:
  void write(const std::string& kind, const TrainingState& state, int64_t epoch,
             const std::vector<std::pair<std::string, double>>& values);
  MetricsLog log_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::vector<std::string> metrics_;
  int64_t every_;
};

struct CheckpointPolicy {
  int64_t every_epochs = 1;  ///< 0: not at epochs
  int64_t every_steps = 0;   ///< 0: not at steps
  int64_t keep = 2;
  bool at_pauses = false;  ///< within an epoch when the steps stand still, instead of every_steps
};

/// Writes checkpoints into a folder as training goes on.
class CheckpointObserver final : public TrainingObserver {
 public:
  /// `files` go into every checkpoint. `before` is called before each, so that logs are on disk no later than it.
  CheckpointObserver(std::filesystem::path folder, const Session& session, CheckpointPolicy policy,
                     ExtraFiles files, std::function<void()> before);

  void step_done(const StepReport& report, const TrainingState& state) override;
  void epoch_done(const EpochReport& report, const TrainingState& state) override;
  void paused(const TrainingState& state) override;
  /// Writes one for this state unless there is one.
  std::filesystem::path save(const TrainingState& state);

 private:
  std::filesystem::path folder_;
  const Session& session_;
  CheckpointPolicy policy_;
  ExtraFiles files_;
  std::function<void()> before_;
};

/// The energy of the whole machine in training steps, without validation and checkpoints between epochs.
class EnergyObserver final : public TrainingObserver {
 public:
  void epoch_began(const EpochStart& start, const TrainingState& state) override;
  void step_done(const StepReport& report, const TrainingState& state) override;

  /// Until now; none where nothing can be read.
  std::optional<double> joules();
  const std::string& source() const { return meter_.source(); }

 private:
  void stop();
  EnergyMeter meter_;
  std::optional<double> began_;  ///< the meter when the steps of an epoch began; none between epochs
  double joules_ = 0;
};

/// Feeds a Progress (telar/observe/progress.h).
class ProgressObserver final : public TrainingObserver {
 public:
  ProgressObserver(Progress& progress, const std::vector<std::string>& metrics);

  void epoch_began(const EpochStart& start, const TrainingState& state) override;
  void step_done(const StepReport& report, const TrainingState& state) override;
  void epoch_done(const EpochReport& report, const TrainingState& state) override;

 private:
  std::optional<double> accuracy_of(const std::vector<double>& metrics) const;
  Progress& progress_;
  std::optional<size_t> accuracy_;
};

}  // namespace telar
