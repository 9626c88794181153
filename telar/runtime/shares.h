#pragma once

#include <cstdint>
#include <vector>

namespace telar {

/// Divides `total` samples into contiguous parts in proportion to `shares` (all ≥ 0, at least one > 0).
/// Leftover samples go to the largest remainders, lower ranks first. Parts may be 0; their sum is `total`.
std::vector<int64_t> split_by_shares(int64_t total, const std::vector<double>& shares);

/// Relative shares from measured speed: each replica's samples per second, smoothed and evaluated every few
/// steps. The shares change only when the slowest replica makes a step more than 10 % longer than necessary,
/// because graphs are compiled for every new part size. A replica whose share would be less than 1/512 of a
/// batch gets nothing. It is then not measured until the others become slower.
class MeasuredShares {
 public:
  explicit MeasuredShares(std::vector<double> start)
      : shares_(std::move(start)), speed_(shares_.size(), 0.0) {}

  const std::vector<double>& shares() const { return shares_; }
  /// Call after a step with each replica's samples and seconds of computation.
  void record(const std::vector<int64_t>& samples, const std::vector<double>& seconds);

 private:
  std::vector<double> shares_;
  std::vector<double> speed_;  ///< samples per second, exponential mean
  int64_t steps_ = 0;
};

}  // namespace telar
