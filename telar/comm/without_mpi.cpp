#include <array>
#include <cstdlib>
#include <string>

#include "telar/comm/processes.h"
#include "telar/core/error.h"

// Replaces comm/mpi in builds without MPI.
namespace telar {

bool can_join_processes() { return false; }

std::unique_ptr<Processes> join_processes(std::function<void(const Error&)> /*late*/) {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");  // NOLINT(concurrency-mt-unsafe): one thread
  if (size == nullptr || std::string(size) == "1") return nullptr;
  throw user_error(
      "mpirun has started {} processes, but this build has no MPI: install libopenmpi-dev and build again",
      size);
}

}  // namespace telar
