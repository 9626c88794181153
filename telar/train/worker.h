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
  std::vector<std::string> overrides;  ///< of the job, for this host: "data.path=…", "strategy.threads=4"
  double patience_seconds = 60;        ///< how long coordinator and servers may be away
  std::stop_token stop;                ///< leaves the run; what is unfinished goes to others
  std::function<void(const std::string&)> say;
};

/// A worker of a run with parameter servers: joins, trains what it is given, and returns when the run is over or `stop` says so. When it was
/// silent for so long that its work was given to others, it joins again. Throws Error.
void work(const WorkOptions& options);

}  // namespace telar
