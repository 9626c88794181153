#include "telar/comm/processes.h"

// Replaces comm/mpi in builds without MPI.
namespace telar {

bool can_join_processes() { return false; }

std::unique_ptr<Processes> join_processes(std::function<void(const Error&)> /*late*/) {
  require_started_alone(
      "this build has no MPI, so each would train on its own: start it once, or install libopenmpi-dev and build again");
  return nullptr;
}

}  // namespace telar
