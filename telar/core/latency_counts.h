#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace telar {

/// How often which latency was measured, in classes that are 9 % wide, from 1 ms to 50 days. So many
/// measurements take little room, and those of several processes can be added.
class LatencyCounts {
 public:
  static constexpr size_t kMostClasses = 256;

  LatencyCounts() = default;
  /// Throws Error (user) for too many classes.
  explicit LatencyCounts(std::span<const uint64_t> classes);

  void add(double seconds);
  void add(const LatencyCounts& more);

  int64_t count() const;
  /// The seconds below which this share of the measurements is, within 5 %; 0.5: the median. 0 without any.
  double quantile(double share) const;
  /// The number of measurements in each class, up to the last one with any.
  const std::vector<uint64_t>& classes() const { return classes_; }
  bool operator==(const LatencyCounts&) const = default;

 private:
  std::vector<uint64_t> classes_;
};

}  // namespace telar
