#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/bench/learned.h"

namespace telar::bench {

/// What every contender reached; their times are compared at it.
struct Target {
  const Measure* measure;
  double value;

  std::string str() const;  ///< "0.87" of an accuracy, which has two decimals; "0.0123" of a loss
};

/// The accuracy decides; the loss does if a contender has none (regression, a model of one's own).
const Measure& measure_of(const std::vector<Learned>& contenders);

/// The best value that all of them reached, rounded to what is no better. Empty if one has none.
std::optional<Target> common_target(const std::vector<Learned>& contenders);

/// Recommends one of several ways to train a job, with reasons, as sentences. The recommended one reached the
/// common target first, among those whose final accuracy equals the best except for chance, or whose final
/// loss is within a tenth of the lowest. If several take at most 1.1 times as long, it is the first of them
/// in the given order, so list the simplest first. The text names differences that are within the spread, and
/// says if the spread is not known.
std::string advice(const std::vector<Learned>& contenders, const Judges& judges);

}  // namespace telar::bench
