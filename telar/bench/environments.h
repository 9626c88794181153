#pragma once

#include <optional>
#include <string>
#include <vector>

namespace telar::bench {

/// A way to train a job on this machine.
struct TrainingEnvironment {
  std::string name;                        ///< "replicas:2"
  std::vector<std::string> settings = {};  ///< settings of the job: "strategy.name=mirrored"
  int processes = 1;                       ///< if above 1, started by mpirun
  int threads = 1;                         ///< CPU threads that compute, over all processes
  bool on_gpus = false;                    ///< true: the limits of the CPU do not apply
  std::optional<int> gpu = {};             ///< the number of the GPU, if a single GPU does all computation
  std::string impossible = {};  ///< why it cannot be measured here, without a full stop; empty if it can
};

/// cpu:N and cpu:all (one device with N or all threads), replicas:N (in one process, the threads divided),
/// mpi:N (N processes), pipeline:N (N stages), gpu and gpu:N (N GPUs), gpu+cpu (a GPU and the CPU together).
/// Throws Error (user) for any other name.
TrainingEnvironment environment_of(const std::string& name);

/// Why mpirun cannot start processes here, without a full stop; empty if it can.
std::string without_mpi();
/// The words that start a program in `processes` processes; the program's own words follow.
std::vector<std::string> mpirun_words(int processes);

}  // namespace telar::bench
