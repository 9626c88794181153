#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "telar/bench/sweep_watch.h"

namespace telar::bench {

/// A key of a job, and the values that are tried: a list of values in YAML, or a range of numbers.
struct VariedKey {
  std::string key;                  ///< "optimizer.learning_rate"
  std::vector<std::string> values;  ///< in the order given; empty: a range
  double least = 0;                 ///< of a range
  double most = 0;
  bool whole = false;  ///< of integers

  /// The value at `position` in [0, 1) of a range, to three digits, or more where these would leave the range
  /// or be far off (integers: exactly), by the logarithm if it spans a factor of ten or more; or of the list.
  std::string at(double position) const;
};

/// Parses "KEY=VALUE,VALUE" or "KEY=LEAST..MOST". Commas within brackets, braces and quotes divide nothing.
/// Throws Error (user).
VariedKey parse_varied(const std::string& text);

inline constexpr int kMostTrainings = 64;  ///< at a time (EndsWithThisProcess)

struct TrialOptions {
  std::string program;  ///< the command line `telar`
  std::filesystem::path job;
  std::vector<std::string> settings;  ///< "training.epochs=3"
  std::vector<std::string> vary;      ///< for parse_varied()
  int64_t trials = 0;                 ///< so many are drawn; 0: all combinations
  int64_t seed = 1;                   ///< of what is drawn
  int64_t at_once = 0;                ///< trainings at a time; 0: as many as have a core, and memory
  std::filesystem::path folder;       ///< for the run folders
  bool resume = false;                ///< the folder has trials already, which go on or are taken as they are
};

/// Trains a job once for each combination of the values, or with values that are drawn, and orders the trials
/// by the best epoch's metric of the validation samples (training.early_stopping.metric). Each has its own
/// process and run folder. Draws divide each range into as many parts as there are trials, and take each part
/// once (McKay, Beckman and Conover, 1979). `watch` is told of a trial when it ends. Throws Error (user) for
/// invalid options and values. The error of a single training becomes the reason in its row.
Result try_values(const TrialOptions& options, const SweepWatch& watch);

}  // namespace telar::bench
