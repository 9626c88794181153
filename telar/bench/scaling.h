#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "telar/bench/sweep_watch.h"

namespace telar::bench {

struct ScalingOptions {
  std::string program;        ///< the command line `telar`
  std::filesystem::path job;  ///< empty: a small network on Fashion-MNIST
  std::vector<std::string> settings;
  std::string strategy = "downpour";  ///< one with parameter servers
  std::vector<int> workers = {1, 2, 4, 8};
  std::vector<int> servers = {1, 2};
  std::vector<int> batches = {50, 100, 500, 1000};
  std::vector<std::string> mixing = {"shuffled"};  ///< "shuffled", "by_label"
  double target = 0.82;                            ///< an accuracy on the validation samples
  std::filesystem::path folder;                    ///< for the runs
};

/// Trains with every combination of workers, servers, batches and mixing until the target is reached or the job's epochs are over. Each worker
/// has one thread. Rows: the time to the target, the compute time (workers × time), rates, staleness, bytes of the fullest server. The
/// sweet spot is marked, and said in a remark. Throws Error (user) for a job without validation samples, a strategy without servers, and for
/// numbers that cannot be.
Result measure_scaling(const ScalingOptions& options, const SweepWatch& watch);

/// A setting that reached the target.
struct Scaled {
  std::string name;  ///< "2 workers, 1 server, batches of 50"
  int workers = 1;
  Spread seconds;

  double compute_seconds() const { return workers * seconds.median; }
};

/// The one with the least product of time and compute time, workers × time²: twice as many workers are worth it when the time falls below
/// 0.71 (1/√2) of what it was. None of none.
std::optional<size_t> sweet_spot(const std::vector<Scaled>& all);
/// The same as sentences, with the fastest and the cheapest beside it, and what differs from it by no more than the spread.
std::string sweet_spot_text(const std::vector<Scaled>& all, double target);

}  // namespace telar::bench
