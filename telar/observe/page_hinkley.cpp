#include "telar/observe/page_hinkley.h"

#include <algorithm>

namespace telar {

bool PageHinkley::add(const PageHinkleyOptions& options, std::span<const double> added) {
  bool drift = false;
  for (const double value : added) {
    ++values;
    mean += (value - mean) / static_cast<double>(values);
    sum += value - mean - options.tolerance;
    least = values == 1 ? sum : std::min(least, sum);
    if (values < options.values || sum - least <= options.threshold) continue;
    drift = true;
    *this = {};
  }
  return drift;
}

}  // namespace telar
