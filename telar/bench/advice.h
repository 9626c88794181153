#pragma once

#include <string>
#include <vector>

#include "telar/bench/learned.h"

namespace telar::bench {

/// The highest accuracy that every contender reached, rounded down to two decimals. Their times are compared
/// at it. 0 if one of them has no accuracy.
double common_accuracy(const std::vector<Learned>& contenders);

/// Recommends one of several ways to train a job, with reasons, as sentences. The recommended one reached
/// the common accuracy first, among those whose final accuracy equals the best except for chance. If several
/// take at most 1.1 times as long, it is the first of them in the given order, so list the simplest first.
/// The text names differences that are within the spread, and says if the spread is not known.
std::string advice(const std::vector<Learned>& contenders, const Judges& judges);

}  // namespace telar::bench
