#pragma once

#include <string>
#include <vector>

#include "telar/bench/timing.h"
#include "telar/comm/processes.h"
#include "telar/runtime/communication_time.h"

namespace telar::bench {

struct CommOptions {
  size_t bytes = size_t{64} << 20;  ///< of gradients, on each replica
  int replicas = 2;                 ///< in a process, one thread each
  double seconds = 1;               ///< each figure is measured for at least so long, and at least 10 times
  std::string workload = "resnet34_7x7";
};

/// Something that was timed, and what it cannot go below.
struct CommFigure {
  std::string name;
  Times times;
  double moved_bytes = 0;  ///< that it must at least read and write, all threads together
  double limit_ms = 0;     ///< these over the measured bandwidth of memory; 0: it is that measurement itself
};

/// Training steps whose communication was told apart.
struct StepFigure {
  std::string name;
  Times times;
  CommunicationTime parts;  ///< of the steps: 0.03 for 3 %
};

struct CommFigures {
  std::vector<CommFigure>
      memory;  ///< the threads of a process add rows to rows of their own, with no word to each other
  CommFigure reduce_scatter;          ///< what a training step does
  CommFigure all_reduce;              ///< every replica gets the whole sum
  std::vector<CommFigure> processes;  ///< the library's MPI_Allreduce, then ours; empty for a process alone
  std::vector<StepFigure> steps;
};

/// Measures communication between the replicas of this process and, where there are several, between `processes`, of which all call
/// it; the figures are rank 0's. Throws Error (user) for options out of range.
CommFigures measure_communication(const CommOptions& options, Processes* processes);

}  // namespace telar::bench
