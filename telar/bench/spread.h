#pragma once

#include <algorithm>
#include <vector>

#include "telar/core/median.h"

namespace telar::bench {

/// What several measurements of one thing came to.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;

  /// Of at least one value.
  static Spread of(const std::vector<double>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return {median_of(values), *least, *most};
  }
  /// Two things whose measurements overlap are not to be told apart.
  bool overlaps(const Spread& other) const { return least <= other.most && other.least <= most; }
};

}  // namespace telar::bench
