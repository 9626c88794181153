#pragma once

#include <functional>
#include <map>

#include "telar/bench/curve.h"

namespace telar::bench {

/// A training that an experiment starts: `telar train JOB --set … --output FOLDER`, a process of its own, so that each begins alike, has its
/// own peak memory, and takes nothing with it when it fails.
struct TrainingStart {
  std::string program;                ///< the command line `telar`
  std::filesystem::path job;          ///< a job file
  std::vector<std::string> settings;  ///< "training.epochs=3", each as --set
  std::filesystem::path
      folder;         ///< of the run, which must not be there yet; what is printed goes to FOLDER.log
  int processes = 1;  ///< above 1: as many, started by mpirun
  std::vector<std::string> options = {};                ///< further ones of `telar train`
  std::map<std::string, std::string> environment = {};  ///< beside this process's own
};

/// Who looks on; each may be empty. All are called by the thread that waits, a few times a second.
struct TrainingWatch {
  std::function<bool()> stop_requested;                    ///< true: the run saves a checkpoint and ends
  std::function<void(const CurvePoint& newest)> progress;  ///< told where it stands
  /// Asked after each epoch; true: what is wanted was reached, and the run ends as if it had been stopped.
  std::function<bool(const CurvePoint& epoch)> enough;
};

/// What became of it.
struct TrainingRun {
  enum class End : uint8_t {
    finished,
    enough,   ///< by TrainingWatch::enough
    stopped,  ///< by TrainingWatch::stop_requested
    failed
  };
  End end = End::finished;
  std::string failure;  ///< why it failed: the run's own sentence, without a full stop; else empty
  TrainingCurve curve;  ///< as far as it came
  std::map<std::string, double>
      figures;  ///< numbers of summary.json: "test_accuracy", "communication/exposed"; empty when it failed

  /// One of the figures, where the summary has it.
  std::optional<double> figure(const std::string& name) const;
};

/// Starts it and waits for its end. A training that fails, cannot be started, or does not end within a minute after it was told to, is
/// a `failure`; nothing is thrown for it.
TrainingRun run_training(const TrainingStart& start, const TrainingWatch& watch);

}  // namespace telar::bench
