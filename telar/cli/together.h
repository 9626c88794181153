#pragma once

#include <functional>

#include "telar/comm/processes.h"

namespace telar::cli {

/// Does the work of a verb that mpirun has started in several processes; `processes` is null for one alone. When one process fails,
/// all end. A mistake of the user's is found by all of them: rank 0 says it for all, and the others speak only when rank 0 has
/// not ended them by then; so does a process that is lost. Returns the exit code.
int run_together(Processes* processes, const std::function<int()>& work);

}  // namespace telar::cli
