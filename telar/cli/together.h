#pragma once

#include <functional>
#include <memory>

#include "telar/comm/processes.h"

namespace telar::cli {

/// The processes that mpirun has started, of which this is one; null for one alone. When the others do not come, says so and ends.
std::unique_ptr<Processes> join_together();

/// Does the work of a verb that mpirun has started in several processes; `processes` is null for one alone. When one process fails,
/// all end. A mistake of the user's is found by all of them: rank 0 says it for all, and the others speak only when rank 0 has
/// not ended them by then; so does a process that is lost. Returns the exit code.
int run_together(Processes* processes, const std::function<int()>& work);

}  // namespace telar::cli
