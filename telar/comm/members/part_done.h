#pragma once

#include <cstdint>
#include <vector>

#include "telar/core/latency_counts.h"

namespace telar {

/// A member's report about one part of a batch.
struct PartDone {
  uint64_t lease = 0;
  int64_t step = 0;
  int64_t samples = 0;
  std::vector<double> metrics;  ///< sums over the samples
  double staleness = 0;
  double seconds = 0;
  LatencyCounts latency = {};  ///< from the arrival of samples to their update, where it is known
};

}  // namespace telar
