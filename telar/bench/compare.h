#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/bench/sweep_watch.h"

namespace telar::bench {

struct CompareOptions {
  std::string program;  ///< the command line `telar`
  std::filesystem::path job;
  std::vector<std::string> settings;    ///< "training.epochs=3"; of the strategy where they mean something
  std::vector<std::string> strategies;  ///< "mirrored", or "mirrored:4" with 4 workers; empty: all
  int workers = 2;                      ///< of those that do not say how many
  int rounds = 1;
  std::filesystem::path folder;  ///< for the runs
};

/// The names that CompareOptions::strategies may have, simplest first: those of a job's strategies, and "mpi", mirrored over processes.
std::vector<std::string> comparable_strategies();

/// Trains the same job under several strategies, each in a process and a run folder of its own, round by round, with the same samples
/// and seed. A strategy that cannot train this job here is a row that says why. Throws Error (user) for a job that is not right whatever
/// the strategy, and for a strategy that there is not.
Result compare_strategies(const CompareOptions& options, const SweepWatch& watch);

}  // namespace telar::bench
