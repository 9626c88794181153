#pragma once

#include <functional>
#include <map>

#include "telar/bench/curve.h"

namespace telar::bench {

/// A training for an experiment: `telar train JOB --set … --output FOLDER`. It runs in its own process, so
/// that each training starts in the same state, has its own peak memory, and can fail without affecting the
/// others.
struct TrainingStart {
  std::string program;                ///< the command line `telar`
  std::filesystem::path job;          ///< a job file
  std::vector<std::string> settings;  ///< "training.epochs=3", each passed by --set
  std::filesystem::path
      folder;         ///< the run folder, which must not exist yet; the output is written to FOLDER.log
  int processes = 1;  ///< if above 1, started by mpirun
  std::vector<std::string> options = {};                ///< further options of `telar train`
  std::map<std::string, std::string> environment = {};  ///< in addition to this process's environment
};

/// Callbacks during a training; each may be empty. The waiting thread calls them a few times per second.
struct TrainingWatch {
  std::function<bool()> stop_requested;                    ///< true: the run saves a checkpoint and ends
  std::function<void(const CurvePoint& newest)> progress;  ///< receives the newest point
  /// Called after each epoch; true: the goal is reached, and the run ends as if it were stopped.
  std::function<bool(const CurvePoint& epoch)> enough;
};

/// The outcome of a training.
struct TrainingRun {
  enum class End : uint8_t {
    finished,
    enough,   ///< by TrainingWatch::enough
    stopped,  ///< by TrainingWatch::stop_requested
    failed
  };
  End end = End::finished;
  std::string failure;  ///< the run's own error message, without a full stop; empty if it did not fail
  TrainingCurve curve;  ///< up to the end, or to the failure
  std::map<std::string, double>
      figures;  ///< numbers of summary.json: "test_accuracy", "communication/exposed"; empty if it failed

  /// A figure by its name, if the summary contains it.
  std::optional<double> figure(const std::string& name) const;
};

/// Runs a training and waits for its end. It does not throw: if a training fails, cannot be started, or does
/// not end within a minute after a request to stop, the result is a `failure`.
TrainingRun run_training(const TrainingStart& start, const TrainingWatch& watch);

}  // namespace telar::bench
