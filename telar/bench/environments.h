#pragma once

#include <optional>
#include <string>
#include <vector>

namespace telar::bench {

/// A way of training a job on this machine.
struct TrainingEnvironment {
  std::string name;                        ///< "replicas:2"
  std::vector<std::string> settings = {};  ///< "strategy.name=mirrored": of the job
  int processes = 1;                       ///< above 1: started by mpirun
  int threads = 1;                         ///< of processors that compute, of all processes together
  bool on_gpus = false;                    ///< then processors' limits say nothing
  std::optional<int> gpu = {};             ///< the number of the one that alone computes
  std::string impossible = {};  ///< why it cannot be measured here, without a full stop; empty when it can
};

/// cpu:N and cpu:all (one device with so many threads), replicas:N (in one process, the threads divided), mpi:N (so many processes),
/// pipeline:N (so many stages), gpu and gpu:N (so many GPUs), hybrid (a GPU and processors together). Throws Error (user) for another name.
TrainingEnvironment environment_of(const std::string& name);

/// Why no processes can be started by mpirun here, without a full stop; empty when they can.
std::string without_mpi();
/// The words of a command before those of the program that it starts in so many processes.
std::vector<std::string> mpirun_words(int processes);

}  // namespace telar::bench
