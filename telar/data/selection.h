#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace telar {

/// Some of the numbers 0 … size-1, in ascending order. Takes one bit for each of the `size` numbers, and
/// eight bytes for every 512.
class Selection {
 public:
  /// `numbers`: the selected ones, in any order. Throws Error (user) for one that is not below `size`.
  Selection(int64_t size, std::span<const int64_t> numbers);

  /// The numbers that are not selected.
  Selection complement() const;
  /// The selected numbers at the positions that `positions`, of 0 … count()-1, selects.
  Selection at(const Selection& positions) const;

  int64_t count() const { return before_.back(); }
  /// The selected number at a position, 0 … count()-1.
  int64_t operator[](int64_t position) const;

 private:
  Selection(int64_t size, std::vector<uint64_t> words);

  int64_t size_;
  std::vector<uint64_t> words_;  ///< bit i mod 64 of word i / 64 is 1 if number i is selected
  std::vector<int64_t> before_;  ///< selected numbers before each block of words; at the end, all of them
};

}  // namespace telar
