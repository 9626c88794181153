#pragma once

#include <cstdint>
#include <vector>

namespace telar {

/// Cuts `total` samples into contiguous parts in proportion to `shares` (all ≥ 0, one > 0): the largest remainders get the
/// samples left over, the lower rank first. Parts may be 0. Sums to `total`.
std::vector<int64_t> split_by_shares(int64_t total, const std::vector<double>& shares);

/// Relative shares from measured speed: each replica's samples per second, smoothed, looked at again every few steps. Changes
/// only when the slowest replica makes a step a tenth longer than it need be, since every new part size is compiled anew. A replica that
/// should have less than 1/512 of a batch has nothing, and so is not measured, until the others become slower.
class MeasuredShares {
 public:
  explicit MeasuredShares(std::vector<double> start)
      : shares_(std::move(start)), speed_(shares_.size(), 0.0) {}

  const std::vector<double>& shares() const { return shares_; }
  /// After a step: the samples and the seconds of each replica's computation.
  void record(const std::vector<int64_t>& samples, const std::vector<double>& seconds);

 private:
  std::vector<double> shares_;
  std::vector<double> speed_;  ///< samples per second, exponential mean
  int64_t steps_ = 0;
};

}  // namespace telar
