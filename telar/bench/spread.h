#pragma once

#include <algorithm>
#include <vector>

#include "telar/core/median.h"

namespace telar::bench {

/// Summary of several measurements of the same thing.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;

  /// `values` must not be empty.
  static Spread of(const std::vector<double>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return {median_of(values), *least, *most};
  }
  /// True if the ranges overlap, so that the measurements do not distinguish the two.
  bool overlaps(const Spread& other) const { return least <= other.most && other.least <= most; }
};

}  // namespace telar::bench
