#pragma once

#include <functional>
#include <memory>

#include "telar/comm/processes.h"

namespace telar::cli {

/// The processes that mpirun has started, including this one; null for a single process. If the others do not
/// join, reports the error and exits.
std::unique_ptr<Processes> join_together();

/// Does the work of a verb that mpirun has started in several processes; `processes` is null for a single
/// process. If one process fails, all end. All processes find the same user error, so rank 0 reports it and
/// ends the others; the others wait two seconds before they report an error of their own. A lost process also
/// ends all. Returns the exit code.
int run_together(Processes* processes, const std::function<int()>& work);

}  // namespace telar::cli
