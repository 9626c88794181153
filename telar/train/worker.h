#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "telar/comm/network.h"

namespace telar {

struct WorkOptions {
  std::string coordinator;  ///< HOST:PORT
  Security security;
  std::vector<std::string> overrides;  ///< of the job, on this host: "data.path=…", "strategy.threads=4"
  double patience_seconds = 60;        ///< how long to wait for an unreachable coordinator or server
  std::stop_token stop;                ///< leaves the run; unfinished work goes to other workers
  /// `stop` ends only the waits for a coordinator: all of the run are stopped, and its checkpoint needs the
  /// steps that have begun.
  bool stays = false;
  std::function<void(const std::string&)> say;
};

/// Runs a worker of a run with parameter servers: joins, trains the batches that it is given, and returns
/// when the run is over or `stop` is requested. It joins again if it was silent for so long that its work was
/// reassigned. Throws Error.
void work(const WorkOptions& options);

}  // namespace telar
