#include "telar/runtime/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace telar {

std::vector<int64_t> split_by_shares(int64_t total, const std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int64_t> parts;
  std::vector<std::pair<double, size_t>> remainders;
  int64_t given = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double exact = static_cast<double>(total) * shares[i] / sum;
    parts.push_back(static_cast<int64_t>(std::floor(exact)));
    remainders.emplace_back(exact - std::floor(exact), i);
    given += parts.back();
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (int64_t i = 0; i < total - given; ++i)
    ++parts[remainders[static_cast<size_t>(i) % remainders.size()].second];
  return parts;
}

void MeasuredShares::record(const std::vector<int64_t>& samples, const std::vector<double>& seconds) {
  constexpr double kSmoothing = 0.2;
  constexpr int64_t kWarmUp = 3;       // first steps compile kernels
  constexpr int64_t kInterval = 10;    // steps between evaluations
  constexpr double kWorthwhile = 1.1;  // relative to the time of a step with proportional parts
  ++steps_;
  if (steps_ <= kWarmUp) return;
  for (size_t i = 0; i < speed_.size(); ++i) {
    if (samples[i] == 0 || seconds[i] <= 0) continue;
    const double now = static_cast<double>(samples[i]) / seconds[i];
    speed_[i] = speed_[i] == 0 ? now : (1 - kSmoothing) * speed_[i] + kSmoothing * now;
  }
  if (steps_ % kInterval != 0) return;
  const double total = std::accumulate(speed_.begin(), speed_.end(), 0.0);
  const auto batch = static_cast<double>(std::accumulate(samples.begin(), samples.end(), int64_t{0}));
  const auto unmeasured = static_cast<double>(std::ranges::count(speed_, 0.0));
  if (unmeasured >= batch) return;
  if (unmeasured > 0) {  // give them one sample each, to measure their speed
    for (size_t i = 0; i < speed_.size(); ++i)
      shares_[i] = speed_[i] == 0 ? 1 : (batch - unmeasured) * speed_[i] / total;
    return;
  }
  const double shared = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  double slowest = 0;
  for (size_t i = 0; i < speed_.size(); ++i)
    slowest = std::max(slowest, (shares_[i] / shared) / (speed_[i] / total));
  if (slowest < kWorthwhile) return;
  // Rounded, so that slightly different speeds give the same parts, whose graphs are compiled already. A
  // replica whose share rounds to zero gets nothing.
  for (size_t i = 0; i < speed_.size(); ++i) shares_[i] = std::round(256 * speed_[i] / total);
}

}  // namespace telar
