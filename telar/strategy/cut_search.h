#pragma once

#include <vector>

#include "telar/strategy/stage_cuts.h"

namespace telar {

/// What a search for the best cuts must know. All references outlive it.
struct CutProblem {
  const TrainingStep& step;
  const StageCuts& cuts;
  const std::vector<size_t>& places;   ///< of cuts, among which it chooses; at least one fewer than stages
  const std::vector<bool>& left;       ///< by node: computed once for the whole batch
  const std::vector<double>& seconds;  ///< by node
  const std::vector<double>& update;   ///< by node: seconds of the update of what its stage keeps
  const std::vector<int>& threads;     ///< of each stage
  int64_t together;                    ///< stages of each process, which share their updates
  const std::vector<double>& speeds;   ///< bytes a second over each cut, by its number
};

/// The places with the shortest simulated step.
std::vector<size_t> best_cuts(const CutProblem& problem, int64_t micro_batches);

}  // namespace telar
