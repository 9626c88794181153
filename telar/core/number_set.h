#pragma once

#include <cstdint>
#include <set>

namespace telar {

/// Numbers from 1 on that come once each, nearly in their order. It takes memory for the gaps only.
class NumberSet {
 public:
  bool contains(int64_t number) const { return number <= before_ || beyond_.contains(number); }

  /// `number`: at least 1.
  void add(int64_t number) {
    if (number > before_) beyond_.insert(number);
    while (!beyond_.empty() && *beyond_.begin() == before_ + 1) {
      beyond_.erase(beyond_.begin());
      ++before_;
    }
  }

 private:
  int64_t before_ = 0;        ///< all up to this one are in the set
  std::set<int64_t> beyond_;  ///< those in the set that come later
};

}  // namespace telar
