#pragma once

#include <cstdint>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// Mean and standard deviation of each channel.
struct Moments {
  std::vector<double> mean;
  std::vector<double> std;
};

/// Sums over some values of each channel.
struct MomentSums {
  double values = 0;  ///< of one channel
  std::vector<double> sum;
  std::vector<double> squares;

  /// Adds the sums of other samples, each of which counts `weight` times.
  void add(const MomentSums& other, double weight);
};

/// The sums over at most `most` evenly spaced samples.
MomentSums moment_sums(const Dataset& data, int64_t most);

/// A constant channel gets the deviation 1.
Moments moments_of(const MomentSums& sums);

}  // namespace telar
