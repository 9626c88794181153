#pragma once

#include <algorithm>
#include <vector>

namespace telar::bench {

/// What several measurements of one thing came to.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;

  /// Of at least one value.
  static Spread of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return {values[values.size() / 2], values.front(), values.back()};
  }
  /// Two things whose measurements overlap are not to be told apart.
  bool overlaps(const Spread& other) const { return least <= other.most && other.least <= most; }
};

}  // namespace telar::bench
