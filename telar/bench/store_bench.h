#pragma once

#include <string>

#include "telar/bench/result.h"

namespace telar::bench {

struct StoreBenchOptions {
  std::string program;  ///< the command line `telar`, which trains with Downpour; empty: that is left out
};

/// What a parameter server costs, and what workers gain by it:
/// - push and pull of 40 MiB and 4 KiB between two processes, over gRPC and over shared memory, each at least 10 times and 1 s. The limit
///   of gRPC is one TCP connection over the loopback, measured in the same run; that of shared memory its bytes over the memory's pace;
/// - the memory that a server of 40 MiB of parameters holds beside them and the optimizer's state, when four members push over gRPC as
///   updates come and in rounds, with and without snapshots meanwhile;
/// - images per second of Downpour with one and two workers of one thread, with the demo's network on images made up.
/// Call it before this process has threads: it forks. Throws Error (run) when a server or a training does not come up.
Result measure_parameter_servers(const StoreBenchOptions& options);

}  // namespace telar::bench
