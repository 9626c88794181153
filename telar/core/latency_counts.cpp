#include "telar/core/latency_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "telar/core/error.h"

namespace telar {

namespace {

constexpr double kPerOctave = 8;
constexpr double kLeastSeconds = 1e-3;

}  // namespace

LatencyCounts::LatencyCounts(std::span<const uint64_t> classes) : classes_(classes.begin(), classes.end()) {
  if (classes.size() > kMostClasses)
    throw user_error("{} classes of latencies; there are at most {}", classes.size(), kMostClasses);
}

/// Class i: kLeastSeconds × 2^(i / kPerOctave) and above; also all that are shorter, or longer than the last.
void LatencyCounts::add(double seconds) {
  const double octaves = std::log2(std::max(seconds, kLeastSeconds) / kLeastSeconds);
  const auto most = static_cast<double>(kMostClasses - 1);
  const auto number = static_cast<size_t>(std::min(octaves * kPerOctave, most));
  if (classes_.size() <= number) classes_.resize(number + 1);
  ++classes_[number];
}

void LatencyCounts::add(const LatencyCounts& more) {
  if (classes_.size() < more.classes_.size()) classes_.resize(more.classes_.size());
  for (size_t i = 0; i < more.classes_.size(); ++i) classes_[i] += more.classes_[i];
}

int64_t LatencyCounts::count() const {
  return static_cast<int64_t>(std::accumulate(classes_.begin(), classes_.end(), uint64_t{0}));
}

double LatencyCounts::quantile(double share) const {
  const double wanted = share * static_cast<double>(count());
  double below = 0;
  for (size_t i = 0; i < classes_.size(); ++i) {
    below += static_cast<double>(classes_[i]);
    if (below > 0 && below >= wanted)
      return kLeastSeconds * std::exp2((static_cast<double>(i) + 0.5) / kPerOctave);
  }
  return 0;
}

}  // namespace telar
