#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "telar/comm/processes.h"
#include "telar/runtime/session.h"

namespace telar {

/// What a run is asked to write down about its steps.
struct ProfileOptions {
  std::string file;    ///< of the trace; empty: trace.json in the run folder
  int64_t steps = 20;  ///< that are in the trace
};

/// The phases and the trace of a run, of all its processes.
class RunProfile {
 public:
  /// From now on the session records. `processes`: those that train together, or null. Waits for all of them.
  RunProfile(const ProfileOptions& options, Session& session, Processes* processes);

  /// What the steps went into, mean of all processes. `compared`: of each step of this process, communication after compare_over;
  /// `own`: before. Waits for all.
  PhaseSummary phases(std::span<const PhaseTimes> steps, std::span<const CommunicationTime> own,
                      std::span<const CommunicationTime> compared) const;
  /// The text of the trace file, with rows of all processes. Waits for all.
  std::string trace() const;

 private:
  ProfileOptions options_;
  Session& session_;
  Processes* processes_;
  std::chrono::steady_clock::time_point zero_;
};

}  // namespace telar
