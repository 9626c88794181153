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

/// Moments measured over at most `most` evenly spaced samples. A constant channel gets the deviation 1.
Moments measured_moments(const Dataset& data, int64_t most);

}  // namespace telar
