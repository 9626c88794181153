#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/bench/spread.h"
#include "telar/bench/training_run.h"

namespace telar::bench {

/// What a setting came to in one or several trainings ("rounds") that differ in nothing. All functions take those that did not fail.
struct Learned {
  std::string name;
  std::vector<TrainingRun> rounds;
};

/// Samples that a training's accuracy is counted on, and what they are. With n of them two accuracies around p that differ by less than
/// 2·√(2p(1 − p)/n) may differ by chance.
struct Judges {
  double samples = 0;
  bool validation = true;  ///< false: the training samples themselves
};
double chance(double accuracy, const Judges& judges);

/// The accuracy after the last epoch, the median over the rounds; none without an epoch or without an accuracy (regression).
std::optional<double> final_accuracy(const Learned& learned);
/// The highest after any epoch, the lowest of the rounds: what each of them reached.
std::optional<double> reached_accuracy(const Learned& learned);
/// Training seconds at the end of the first epoch with at least this accuracy; none when a round never had it. Of one round alone the spread
/// is that of its epochs' rates, of which the first is left out where there are three or more.
std::optional<Spread> seconds_to(const Learned& learned, double accuracy);
/// Samples per second of training of each epoch: over the rounds, or of one round's epochs as above. None without an epoch.
std::optional<Spread> samples_per_second(const Learned& learned);

}  // namespace telar::bench
