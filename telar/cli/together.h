#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "telar/comm/linked/elastic_processes.h"
#include "telar/comm/network.h"
#include "telar/comm/processes.h"

namespace telar::cli {

/// The processes that mpirun has started, including this one; null for a single process. If the others do not
/// join, reports the error and exits.
std::unique_ptr<Processes> join_together();

/// Of groups of processes that train a job (PeerOptions).
inline constexpr char kTrainPurpose[] = "telar train";

/// Where other hosts reach a process that listens at this address: 0.0.0.0 is an address of no host.
std::string reachable(const std::string& address);

/// How a run gets processes without MPI.
struct PeerStart {
  int64_t workers = 2;      ///< processes, with this one
  int64_t min_workers = 0;  ///< strategy.min_workers
  std::string coordinate;   ///< HOST:PORT where the others join; empty: they are started here
  double wait = 0;          ///< seconds, for all others together; 0: for ever
  std::function<bool()>
      needs_nobody;  ///< asked once in the wait, after a minute or at its end: whether it ends
  std::function<void(const std::string& address)> listens;  ///< told where they join, HOST:PORT
  Security security;
  std::string description;  ///< for the others (join_peers)
  std::function<bool()> stop_requested;
  std::function<void(const std::string&)> say;  ///< from any thread
};

/// Processes over these links. If `min_workers` (strategy.min_workers) is not 0, they are elastic, and
/// `elastic` is set to them.
std::unique_ptr<Processes> processes_over(std::unique_ptr<ElasticLinks> links, int64_t min_workers,
                                          ElasticProcesses*& elastic);

/// The processes of a run, of which this is rank 0. Those that it has started end with it.
class PeerGroup {
 public:
  /// Waits until all have come. Throws Error.
  explicit PeerGroup(const PeerStart& start);
  ~PeerGroup();
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;
  Processes& processes();
  /// The same; null: a process that is lost ends the run.
  ElasticProcesses* elastic();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a process reports when it fails because another one has.
enum class OthersFailures : uint8_t { reported, silent };

/// Does the work of a verb that runs in several processes; `processes` is null for a single process. If one
/// process fails, all end. All processes find the same user error, so rank 0 reports it and ends the others;
/// the others wait two seconds before they report an error of their own. A lost process also ends all.
/// Returns the exit code.
int run_together(Processes* processes, const std::function<int()>& work,
                 OthersFailures failures = OthersFailures::reported);

}  // namespace telar::cli
