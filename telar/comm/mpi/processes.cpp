#include "telar/comm/processes.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/mpi/mpi_links.h"
#include "telar/core/error.h"

namespace telar {

namespace {

/// Starting MPI takes a while, so a process that runs alone does not start it.
bool started_by_mpi() {
  return std::ranges::any_of(
      std::vector<const char*>{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE"}, [](const char* name) {
        return std::getenv(name) != nullptr;  // NOLINT(concurrency-mt-unsafe): one thread
      });
}

/// Bridges of containers and virtual machines have the same address on every host, so a connection to it ends
/// at its own host. What the user has chosen stays.
void exclude_bridges() {
  constexpr char kExclude[] = "OMPI_MCA_btl_tcp_if_exclude";
  // NOLINTBEGIN(concurrency-mt-unsafe): one thread
  if (std::getenv("OMPI_MCA_btl_tcp_if_include") == nullptr)
    ::setenv(kExclude, "127.0.0.1/8,sppp,docker0,podman0,virbr0", 0);
  // NOLINTEND(concurrency-mt-unsafe)
}

/// Calls `late` if it exists for longer than the start of all processes may take.
class StartGuard {
 public:
  explicit StartGuard(std::function<void(const Error&)> late)
      : thread_([late = std::move(late)](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any never;
          never.wait_for(lock, stop, kPatience, [] { return false; });
          if (stop.stop_requested() || !late) return;
          late(run_error(
              "the processes of this run have not found each other for {} s: one of them was not started, was stopped, or its host cannot be reached; if several hosts have a network interface with one address, name another one: mpirun --mca btl_tcp_if_include eth0",
              kPatience.count()));
        }) {}

 private:
  static constexpr std::chrono::seconds kPatience{28};
  std::jthread thread_;
};

}  // namespace

bool can_join_processes() { return true; }

std::unique_ptr<Processes> join_processes(std::function<void(const Error&)> late) {
  if (started_by_mpi()) {
    exclude_bridges();
    const StartGuard guard(std::move(late));
    int given = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &given);
    if (given < MPI_THREAD_MULTIPLE) {
      MPI_Finalize();
      throw user_error(
          "this MPI library cannot be called by several threads (MPI_THREAD_MULTIPLE); use one that can");
    }
    auto processes = std::make_unique<LinkedProcesses>(make_mpi_links());
    if (processes->size() > 1) return processes;
  }
  require_started_alone(
      "OpenMPI, with which telar is built, sees only this one, so each would train on its own: use OpenMPI's mpirun, or srun --mpi=pmix");
  return nullptr;
}

}  // namespace telar
