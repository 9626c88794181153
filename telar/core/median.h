#pragma once

#include <algorithm>
#include <vector>

namespace telar {

/// The middle value, or the mean of the two middle ones. `values` must not be empty.
template <typename Number>
double median_of(std::vector<Number> values) {
  std::sort(values.begin(), values.end());
  return (double{values[(values.size() - 1) / 2]} + double{values[values.size() / 2]}) / 2;
}

}  // namespace telar
