#pragma once

#include <functional>
#include <string>

#include "telar/bench/learned.h"
#include "telar/bench/result.h"

namespace telar::bench {

/// Callbacks for the progress of an experiment that trains; each may be empty.
struct SweepWatch {
  std::function<bool()> stop_requested;
  std::function<void(size_t trainings)> planned;  ///< their number; called before the first, after all checks
  std::function<void(const std::string& what)> began;      ///< a training: "mirrored 2, round 1"
  std::function<void(const CurvePoint& newest)> progress;  ///< of the current training
  std::function<void(const std::string& how)> ended;       ///< the outcome of the training, in words
  std::function<void(const Result& result)> measured;      ///< the result so far, after each training
};

/// Trains once and reports to `watch`. `enough` as in TrainingWatch. The seconds of the curve count from the
/// end of the first logged step, so they do not include the start of workers and servers and the compilation
/// of graphs.
TrainingRun train_and_tell(const TrainingStart& start, const std::string& what, const SweepWatch& watch,
                           const std::function<bool(const CurvePoint& epoch)>& enough = {});

}  // namespace telar::bench
