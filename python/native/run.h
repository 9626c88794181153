#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "python/native/python_session.h"
#include "telar/train/checkpoint_observer.h"
#include "telar/train/early_stopping.h"
#include "telar/train/run_folder.h"
#include "telar/train/run_observers.h"

namespace telar::python {

/// How far a training in Python has come, and its folder with log, TensorBoard events and checkpoints
/// (telar/train/run_folder.h) if it has one.
class PythonRun {
 public:
  /// `folder`: empty for none. `resume`: continues from the newest intact checkpoint, if there is one.
  /// `patience`: EarlyStopping's. Throws Error (user) if the folder belongs to another run.
  PythonRun(const std::string& folder, bool resume, int64_t patience);

  const TrainingState& state() const { return state_; }
  /// What the program has kept with the checkpoint from which this run continues; none if it begins.
  const std::optional<std::string>& notes() const { return notes_; }

  /// Loads the checkpoint from which this run continues.
  void load(PythonSession& session) const;
  /// Loads the parameters of the best epoch.
  void load_best(PythonSession& session) const;

  void step_done(int64_t samples, double loss, double learning_rate, double seconds);
  /// Whether the training has not improved for so long that it ends.
  bool epoch_done(std::optional<double> validation_loss);
  /// Writes a checkpoint, with what the program wants to keep.
  void save(const PythonSession& session, const std::string& notes);

 private:
  static constexpr const char* kNotes = "python.pt";

  EarlyStopping early_stopping_;
  std::optional<RunFolder> folder_;
  std::optional<FoundCheckpoint> found_;
  std::optional<std::string> notes_;
  std::unique_ptr<LogObserver> log_;
  TrainingState state_;
};

}  // namespace telar::python
