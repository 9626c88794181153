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

/// What trainings are compared by.
struct Measure {
  const char* name;
  const char* one;  ///< with its article
  std::optional<double> CurvePoint::*of;
  bool higher;  ///< whether higher is better

  bool better(double a, double b) const { return higher ? a > b : a < b; }
};
inline constexpr Measure kAccuracy{"accuracy", "an accuracy", &CurvePoint::accuracy, true};
inline constexpr Measure kLoss{"loss", "a loss", &CurvePoint::loss, false};

/// The samples that accuracy is computed on. With n of them, two accuracies around p that differ by less than
/// 2·√(2p(1 − p)/n) may differ by chance.
struct Judges {
  double samples = 0;
  bool validation = true;  ///< false: the training samples themselves
};
double chance(double accuracy, const Judges& judges);

/// The value after the last epoch, median over the rounds; empty without an epoch, or if it was not measured
/// (the accuracy of a regression).
std::optional<double> final_value(const Learned& learned, const Measure& measure);
/// The best value after any epoch that every round reached; empty if one did not measure it.
std::optional<double> reached_value(const Learned& learned, const Measure& measure);
/// Training seconds up to the end of the first epoch with at least this value; empty if a round never
/// reached it. For a single round, the spread is derived from the rates of its epochs, as in
/// samples_per_second().
std::optional<Spread> seconds_to(const Learned& learned, const Measure& measure, double value);
/// Samples per second of training, over the rounds. For a single round: over its epochs, without the first
/// one if there are three or more. Empty without an epoch.
std::optional<Spread> samples_per_second(const Learned& learned);

}  // namespace telar::bench
