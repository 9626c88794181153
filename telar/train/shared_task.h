#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "telar/train/run.h"

namespace telar {

/// What all processes of a run do with its job; rank 0 also writes and reports.
struct SharedTask {
  Job job;
  bool resume = false;
  bool accept_changed_data = false;
  bool check = false;                    ///< the job is checked, not trained
  std::optional<int64_t> profile_steps;  ///< empty: no profile
  std::optional<ComesLater> comes;       ///< for a process that takes the place of a lost one
  // For a process that goes on with the run as rank 0.
  std::string metrics;  ///< RunOptions
  std::string summary;  ///< the file for the result, absolute; empty: none
  bool quiet = false;
};

/// As JSON, for processes that join (join_peers).
std::string to_json(const SharedTask& task);
/// Throws Error (user).
SharedTask shared_task_from_json(const std::string& text);

/// The part of a process that has joined. `overrides`: of the job, on its host. `elastic`: RunOptions.
/// `signal`: the number of a signal that asks it to stop; 0: none. `ended` is called if it has become rank 0.
/// Returns the exit code. Throws Error.
int follow(SharedTask task, const std::vector<std::string>& overrides, Processes& processes,
           ElasticProcesses* elastic, const std::function<int()>& signal, std::optional<Heir> heir = {},
           const std::function<void(const RunSummary&)>& ended = {});

/// Of a run that was stopped, and whose last checkpoint is not where output.storage says.
inline constexpr int kStoppedUnstored = 75;

/// The exit code of a run: 0, or 128 and the number of the signal that has stopped it, which only some of the
/// processes may have received; 1 or kStoppedUnstored if its last checkpoint is not where output.storage
/// says.
int exit_code_of(const RunSummary& summary, int signal, Processes* processes);

}  // namespace telar
