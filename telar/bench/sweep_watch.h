#pragma once

#include <functional>
#include <string>

#include "telar/bench/learned.h"
#include "telar/bench/result.h"

namespace telar::bench {

/// Who is told how an experiment that trains goes on; each may be empty.
struct SweepWatch {
  std::function<bool()> stop_requested;
  std::function<void(size_t trainings)>
      planned;  ///< so many; before the first, when nothing can be refused any more
  std::function<void(const std::string& what)> began;      ///< a training: "mirrored 2, round 1"
  std::function<void(const CurvePoint& newest)> progress;  ///< of that training
  std::function<void(const std::string& how)> ended;       ///< what became of it, in words
  std::function<void(const Result& result)> measured;      ///< the result so far, after each training
};

/// Trains once, and tells `watch` how it goes. `enough` as in TrainingWatch. The curve's seconds begin with the end of the first step that was
/// logged, so that the start of workers and servers and the compiling of graphs are not in them.
TrainingRun train_and_tell(const TrainingStart& start, const std::string& what, const SweepWatch& watch,
                           const std::function<bool(const CurvePoint& epoch)>& enough = {});

}  // namespace telar::bench
