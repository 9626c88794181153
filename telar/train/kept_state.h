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

/// Gives the sessions of all processes the values that rank 0 has of a tensor of the state, and returns them.
/// All call it.
std::vector<float> share_tensor(const StateName& name, const std::function<std::vector<float>()>& of_rank_0,
                                Session& session, Processes& processes);
/// The same of where the training is.
TrainingState shared_state(const TrainingState& of_rank_0, Processes& processes);

/// A whole state of a run in the memory of rank 0, from which those who are left go on when a process is
/// lost (strategy.min_workers). If that is rank 0, another one goes on from its own: where the state is
/// divided among the processes, rank 1 has one, too.
class KeptState {
 public:
  /// Keeps the session's state, after a step, instead of the one before. If it is divided among processes,
  /// all of them call it, and ranks 0 and 1 store it. If it throws, the one before is still there.
  void keep(const Session& session, const TrainingState& training, int rank);
  /// Whether this process has the whole state.
  bool is_whole() const { return whole_; }

  /// Whether a divided state is to be kept now, because so many steps have been made since. The same in all
  /// processes.
  bool due(const Session& session, const TrainingState& training, int64_t steps) const;

  /// Gives it to the sessions of all processes, and returns where the training is then. `seconds`: so far in
  /// training steps, with those that are made again; that of rank 0 counts. All processes call it.
  const TrainingState& give(Session& session, double seconds, Processes& processes);

 private:
  static bool stores(const Session& session, int rank) { return rank < 2 || !session.state_is_divided(); }

  TrainingState training_;
  bool whole_ = false;
  std::map<std::string, std::vector<float>> tensors_;  ///< by StateName::text(), where it is stored
};

}  // namespace telar
