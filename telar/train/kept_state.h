#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/runtime/session.h"
#include "telar/train/training_state.h"

namespace telar {

/// Gives the sessions of all processes the values that rank 0 has of a tensor of the state. All call it.
void share_tensor(const StateName& name, const std::function<std::vector<float>()>& of_rank_0,
                  Session& session, Processes& processes);
/// The same of where the training is.
TrainingState shared_state(const TrainingState& of_rank_0, Processes& processes);

/// A whole state of a run in the memory of rank 0, from which those who are left go on when a process is
/// lost (strategy.min_workers).
class KeptState {
 public:
  /// Keeps the session's state, after a step, instead of the one before. If it is divided among processes,
  /// all of them call it, and rank 0 `stores` it. If it throws, the one before is still there.
  void keep(const Session& session, const TrainingState& training, bool stores);

  /// Whether a divided state is to be kept now, because so many steps have been made since. The same in all
  /// processes.
  bool due(const Session& session, const TrainingState& training, int64_t steps) const;

  /// Gives it to the sessions of all processes, and returns where the training is then. `seconds`: so far in
  /// training steps, with those that are made again; that of rank 0 counts. All processes call it.
  const TrainingState& give(Session& session, double seconds, Processes& processes);

 private:
  TrainingState training_;
  std::map<std::string, std::vector<float>> tensors_;  ///< by StateName::text(), where it is stored
};

}  // namespace telar
