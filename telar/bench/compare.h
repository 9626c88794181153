#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "telar/bench/sweep_watch.h"

namespace telar::bench {

struct CompareOptions {
  std::string program;  ///< the command line `telar`
  std::filesystem::path job;
  std::vector<std::string>
      settings;  ///< "training.epochs=3"; settings of a strategy apply where they are valid
  std::vector<std::string> strategies;  ///< "mirrored", or "mirrored:4" with 4 workers; empty: all
  int workers = 2;                      ///< if a strategy does not give a number
  int rounds = 1;
  std::filesystem::path folder;  ///< for the run folders
};

/// Valid names for CompareOptions::strategies, simplest first: the strategies of a job, and "mpi", which is
/// mirrored over several processes.
std::vector<std::string> comparable_strategies();

/// Trains the same job under several strategies with the same samples and seed, one round after another. Each
/// training has its own process and run folder. If a strategy cannot train this job here, its row gives the
/// reason. Throws Error (user) for a job that is invalid under every strategy, and for an unknown strategy.
Result compare_strategies(const CompareOptions& options, const SweepWatch& watch);

}  // namespace telar::bench
