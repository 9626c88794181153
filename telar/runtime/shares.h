#pragma once

#include <cstdint>
#include <vector>

namespace telar {

/// Divides `total` samples into contiguous parts in proportion to `shares` (all ≥ 0, at least one > 0).
/// Leftover samples go to the largest remainders, lower ranks first. Parts may be 0; their sum is `total`. If
/// a part would have fewer samples than `least`, but some, it has none or `least`, unless `total` is less.
std::vector<int64_t> split_by_shares(int64_t total, const std::vector<double>& shares, int64_t least = 1);

/// Relative shares from measured speed: each replica's samples per second, reviewed every ten steps, but not
/// more often than every 100 ms: a replica whose processor is shared with another program stands still for
/// some milliseconds, then runs at full speed, and would look fast or stopped by chance.
/// The shares change only when the slowest replica makes a step more than 10 % longer than necessary,
/// because graphs are compiled for every new part size. A replica whose share would be less than 1/512 of a
/// batch gets nothing. It is then not measured until the others become slower.
class MeasuredShares {
 public:
  /// `least`: samples that a replica needs, if it has some.
  explicit MeasuredShares(std::vector<double> start, int64_t least = 1);

  const std::vector<double>& shares() const { return shares_; }
  /// Call after a step with each replica's samples and seconds of computation.
  void record(const std::vector<int64_t>& samples, const std::vector<double>& seconds);

 private:
  void update_speeds();
  void review(int64_t batch);
  void change_to(std::vector<double> shares);

  std::vector<double> shares_;
  int64_t least_;
  std::vector<double> speed_;    ///< samples per second, a moving mean; 0: not measured yet
  std::vector<double> samples_;  ///< of each replica since the last review
  std::vector<double> seconds_;
  double elapsed_ = 0;    ///< seconds of the slowest replicas since the last review
  int64_t steps_ = 0;     ///< since the last review
  int64_t settling_ = 0;  ///< steps still to be ignored, because they compile graphs
};

}  // namespace telar
