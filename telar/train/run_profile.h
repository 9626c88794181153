#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "telar/comm/processes.h"
#include "telar/runtime/session.h"

namespace telar {

/// What to record about the steps of a run.
struct ProfileOptions {
  std::string file;    ///< path of the trace; empty: trace.json in the run folder
  int64_t steps = 20;  ///< steps in the trace
};

/// The phases and the trace of a run over all of its processes.
class RunProfile {
 public:
  /// Starts recording in the session. `processes`: the processes that train together, or null. Waits for all.
  RunProfile(const ProfileOptions& options, Session& session, Processes* processes);

  /// How the time of the steps divides into phases, mean over all processes. For each step of this process,
  /// `compared` is its communication after compare_over, `own` before it. Waits for all processes.
  PhaseSummary phases(std::span<const PhaseTimes> steps, std::span<const CommunicationTime> own,
                      std::span<const CommunicationTime> compared) const;
  /// The text of the trace file, with rows of all processes. Waits for all processes.
  std::string trace() const;

 private:
  ProfileOptions options_;
  Session& session_;
  Processes* processes_;
  std::chrono::steady_clock::time_point zero_;
};

}  // namespace telar
