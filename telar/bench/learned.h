#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/bench/spread.h"
#include "telar/bench/training_run.h"

namespace telar::bench {

/// The results of one setting in one or several identical trainings ("rounds"). All functions expect
/// trainings that did not fail.
struct Learned {
  std::string name;
  std::vector<TrainingRun> rounds;
};

/// The samples that accuracy is computed on. With n of them, two accuracies around p that differ by less than
/// 2·√(2p(1 − p)/n) may differ by chance.
struct Judges {
  double samples = 0;
  bool validation = true;  ///< false: the training samples themselves
};
double chance(double accuracy, const Judges& judges);

/// The accuracy after the last epoch, median over the rounds; empty without an epoch or an accuracy
/// (regression).
std::optional<double> final_accuracy(const Learned& learned);
/// The highest accuracy after any epoch, minimum over the rounds: every round reached it.
std::optional<double> reached_accuracy(const Learned& learned);
/// Training seconds up to the end of the first epoch with at least this accuracy; empty if a round never
/// reached it. For a single round, the spread is derived from the rates of its epochs, as in
/// samples_per_second().
std::optional<Spread> seconds_to(const Learned& learned, double accuracy);
/// Samples per second of training, over the rounds. For a single round: over its epochs, without the first
/// one if there are three or more. Empty without an epoch.
std::optional<Spread> samples_per_second(const Learned& learned);

}  // namespace telar::bench
