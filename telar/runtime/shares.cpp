#include "telar/runtime/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace telar {

namespace {

constexpr int64_t kSettling = 3;     // steps with new parts, which compile their graphs
constexpr int64_t kSteps = 10;       // between reviews
constexpr double kSeconds = 0.1;     // between reviews: longer than several time slices of the system
constexpr double kWorthwhile = 1.1;  // relative to the time of a step with proportional parts

}  // namespace

std::vector<int64_t> split_by_shares(int64_t total, const std::vector<double>& shares, int64_t least) {
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
  const auto too_small = [least](int64_t part) { return part > 0 && part < least; };
  if (std::ranges::none_of(parts, too_small)) return parts;
  parts = split_by_shares(total / least, shares);
  for (int64_t& part : parts) part *= least;
  *std::ranges::max_element(parts) += total % least;
  return parts;
}

MeasuredShares::MeasuredShares(std::vector<double> start, int64_t least)
    : shares_(std::move(start)),
      least_(least),
      speed_(shares_.size(), 0.0),
      samples_(shares_.size(), 0.0),
      seconds_(shares_.size(), 0.0),
      settling_(kSettling) {}

void MeasuredShares::record(const std::vector<int64_t>& samples, const std::vector<double>& seconds) {
  if (settling_ > 0) {
    --settling_;
    return;
  }
  for (size_t i = 0; i < shares_.size(); ++i) {
    if (samples[i] == 0 || seconds[i] <= 0) continue;
    samples_[i] += static_cast<double>(samples[i]);
    seconds_[i] += seconds[i];
  }
  elapsed_ += std::ranges::max(seconds);
  if (++steps_ < kSteps || elapsed_ < kSeconds) return;
  update_speeds();
  review(std::accumulate(samples.begin(), samples.end(), int64_t{0}));
  steps_ = 0;
  elapsed_ = 0;
  std::ranges::fill(samples_, 0.0);
  std::ranges::fill(seconds_, 0.0);
}

/// Means of seconds per sample, not of samples per second: in those, a step that stands still would hardly
/// count.
void MeasuredShares::update_speeds() {
  for (size_t i = 0; i < speed_.size(); ++i) {
    if (seconds_[i] == 0) continue;
    const double now = seconds_[i] / samples_[i];
    const double before = speed_[i] == 0 ? now : 1 / speed_[i];
    speed_[i] = 2 / (before + now);
  }
}

void MeasuredShares::review(int64_t batch) {
  const double total = std::accumulate(speed_.begin(), speed_.end(), 0.0);
  const auto whole = static_cast<double>(batch);
  const auto one = static_cast<double>(least_);
  const double unmeasured = one * static_cast<double>(std::ranges::count(speed_, 0.0));
  if (unmeasured >= whole) return;
  std::vector<double> shares;
  if (unmeasured > 0) {  // give them as few samples as possible, to measure their speed
    for (const double speed : speed_)
      shares.push_back(speed == 0 ? one : (whole - unmeasured) * speed / total);
    change_to(std::move(shares));
    return;
  }
  const double shared = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  double slowest = 0;
  for (size_t i = 0; i < speed_.size(); ++i)
    slowest = std::max(slowest, (shares_[i] / shared) / (speed_[i] / total));
  if (slowest < kWorthwhile) return;
  // Rounded, so that slightly different speeds give the same parts, whose graphs are compiled already. A
  // replica whose share rounds to zero gets nothing.
  for (const double speed : speed_) shares.push_back(std::round(256 * speed / total));
  change_to(std::move(shares));
}

void MeasuredShares::change_to(std::vector<double> shares) {
  shares_ = std::move(shares);
  settling_ = kSettling;
}

}  // namespace telar
