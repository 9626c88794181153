#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "telar/data/dataset.h"

namespace telar {

/// Mean and standard deviation of each channel.
struct Moments {
  std::vector<double> mean;
  std::vector<double> std;
  std::vector<size_t> constant;  ///< channels whose values are all the same; their deviation is 1
};

/// The moments of some values of each channel, from which those of more values can be computed (Chan, Golub
/// and LeVeque 1979): means, and sums of squared distances from them, which lose no digits to large means.
struct MomentSums {
  double values = 0;  ///< of one channel
  std::vector<double> mean;
  std::vector<double> squares;  ///< Σ (x − mean)²

  /// Adds other samples, each of which counts `weight` times.
  void add(const MomentSums& other, double weight = 1);
};

/// Of all samples.
MomentSums moment_sums(const Dataset& data);
/// Of at most `most` samples, chosen at random by `seed`.
MomentSums moment_sums(const Dataset& data, int64_t most, uint64_t seed);

Moments moments_of(const MomentSums& sums);

}  // namespace telar
