#pragma once

#include <algorithm>
#include <vector>

namespace telar::bench {

/// The middle value, or the mean of the two middle ones. Of at least one value.
inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

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
