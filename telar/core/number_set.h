#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace telar {

/// Numbers that come once each, nearly in their order. It takes memory for the gaps only.
class NumberSet {
 public:
  bool contains(int64_t number) const {
    const auto after = ranges_.upper_bound(number);
    return after != ranges_.begin() && std::prev(after)->second >= number;
  }

  void add(int64_t number) {
    if (contains(number)) return;
    auto after = ranges_.upper_bound(number);
    const bool joins_next = after != ranges_.end() && after->first == number + 1;
    const int64_t last = joins_next ? after->second : number;
    if (joins_next) after = ranges_.erase(after);
    if (after != ranges_.begin() && std::prev(after)->second == number - 1) {
      std::prev(after)->second = last;
    } else {
      ranges_.emplace(number, last);
    }
  }

  /// First to last, neither overlapping nor adjoining.
  const std::map<int64_t, int64_t>& ranges() const { return ranges_; }
  /// Adds numbers after all others, and after a gap. Returns false, and changes nothing, if they are not.
  bool append(int64_t first, int64_t last) {
    if (first > last || (!ranges_.empty() && first <= ranges_.rbegin()->second + 1)) return false;
    ranges_.emplace(first, last);
    return true;
  }

 private:
  std::map<int64_t, int64_t> ranges_;
};

}  // namespace telar
