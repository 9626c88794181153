#pragma once

#include <string>
#include <vector>

#include "telar/bench/learned.h"

namespace telar::bench {

/// An accuracy that every one of them reached, as a round number (two digits): what their times are compared at. 0 when one never had any.
double common_accuracy(const std::vector<Learned>& contenders);

/// Which of several ways of training one job to choose and why, as sentences: the one that reached the common accuracy first, of those whose
/// accuracy at the end is as good as the best one's but for chance. Of several that overlap in time, and take
/// no more than 1.1 times as long, it is the first in the order given, so the simplest should stand first. What is within the spread is said to be so.
std::string advice(const std::vector<Learned>& contenders, const Judges& judges);

}  // namespace telar::bench
