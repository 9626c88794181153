#pragma once

#include <string>

#include "telar/bench/result.h"

namespace telar::bench {

struct StoreBenchOptions {
  std::string program;  ///< the command line `telar`, which trains with Downpour; empty: skip that part
};

/// Measures the cost of a parameter server, and what workers gain from it:
/// - Push and pull of 40 MiB and 4 KiB between two processes, over gRPC and over shared memory, each at least
///   10 times and for 1 s. The limit for gRPC is one TCP connection over the loopback, measured in this run;
///   the limit for shared memory is the number of bytes divided by the memory rate.
/// - The memory that a server with 40 MiB of parameters uses in addition to the parameters and the optimizer
///   state, while four members push over gRPC, asynchronously and in rounds, with and without snapshots.
/// - Images per second of Downpour with one and two workers of one thread, on synthetic images with the
///   demo's network.
/// Call it before this process starts threads, because it forks. Throws Error (run) if a server or a training
/// does not start.
Result measure_parameter_servers(const StoreBenchOptions& options);

}  // namespace telar::bench
