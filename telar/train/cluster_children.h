#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "telar/comm/network.h"
#include "telar/data/streams/stream.h"
#include "telar/observe/child_process.h"
#include "telar/train/job.h"

namespace telar {

struct ClusterOptions {
  /// The address that workers on other hosts join: HOST:PORT. Empty: workers are started on this machine.
  std::string coordinate;
  std::vector<std::string> servers;  ///< their addresses; empty: they are started on this machine
  std::function<void(const std::string& address)> listens;  ///< told where workers join; may be empty
  Security security;
  std::string program;                          ///< started as `PROGRAM serve …` and `PROGRAM work …`
  std::filesystem::path folder;                 ///< the run folder, for logs/, servers/ and the run's id
  std::function<void(const std::string&)> say;  ///< receives progress messages; called by the training thread
  int64_t epoch_steps = 0;                      ///< batches in an epoch
  const Stream* stream = nullptr;               ///< of which the batches are; null: of files
  std::function<bool()> stop_requested;         ///< called from any thread; empty: never stop
  /// Whether the run goes back to this checkpoint, its newest one, when no copy is left (CopiesLost); empty:
  /// no.
  std::function<bool(const std::filesystem::path& checkpoint)> goes_back;
};

/// How the servers and workers of a run are started on this machine. `listen`: HOST:PORT of the server;
/// `own`: its folder, where its address and its snapshots are.
ChildStart server_start(const ClusterOptions& options, const StrategyJob& strategy, int64_t number,
                        const std::string& listen, const std::filesystem::path& own);
/// A worker computes on its part of the cores, unless the job says how many. `coordinator`: HOST:PORT.
ChildStart worker_start(const ClusterOptions& options, const Job& job, int64_t number,
                        const std::string& coordinator);

std::string worker_name(int64_t number);

}  // namespace telar
