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
  std::string strategy = "downpour";  ///< must use parameter servers
  std::vector<int> workers = {1, 2, 4, 8};
  std::vector<int> servers = {1, 2};
  std::vector<int> batches = {50, 100, 500, 1000};
  std::vector<std::string> mixing = {"shuffled"};  ///< "shuffled", "by_label"
  double target = 0.82;                            ///< the accuracy to reach on the validation samples
  std::filesystem::path folder;                    ///< for the run folders
};

/// Trains with every combination of workers, servers, batches and mixing, until the target is reached or the
/// job's epochs are over. Each worker has one thread. Columns: the time to the target, the compute time
/// (workers × time), rates, staleness, and bytes on the server with the most. The sweet spot is marked, and a
/// remark names it. Throws Error (user) for a job without validation samples, a strategy without servers, and
/// invalid numbers.
Result measure_scaling(const ScalingOptions& options, const SweepWatch& watch);

/// A setting that reached the target.
struct Scaled {
  std::string name;  ///< "2 workers, 1 server, batches of 50"
  int workers = 1;
  Spread seconds;

  double compute_seconds() const { return workers * seconds.median; }
};

/// The setting with the least product of time and compute time: workers × time². Twice as many workers are
/// worth it if the time falls below 0.71 (1/√2) of its former value. Empty if `all` is empty.
std::optional<size_t> sweet_spot(const std::vector<Scaled>& all);
/// The sweet spot as sentences, with the fastest and the cheapest setting, and those within the spread of it.
std::string sweet_spot_text(const std::vector<Scaled>& all, double target);

}  // namespace telar::bench
