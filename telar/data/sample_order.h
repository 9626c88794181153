#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace telar {

/// The version of the order of samples below: positions in an epoch of another version mean other samples.
/// Version 1, up to November 2026, was a shuffled array (Fisher–Yates).
inline constexpr int64_t kOrderVersion = 2;

/// The order of samples in an epoch. With `shuffle` it is a permutation that depends only on the number of
/// samples, seed, epoch and name (telar/data/permutation.h), otherwise the data's own order. Neither takes
/// memory. With `together` above 1, the permutation is one of pieces of `together` consecutive samples, which
/// keep their order; a smaller last piece stays last.
class SampleOrder {
 public:
  /// `name`: of the samples; those with other names have another order. Throws Error (user) for `together`
  /// below 1.
  SampleOrder(int64_t size, uint64_t seed, bool shuffle, int64_t together = 1, std::string name = "");

  /// Writes the samples at the positions from `first` on.
  void read(uint32_t epoch, int64_t first, std::span<int64_t> samples) const;

 private:
  int64_t size_;
  uint64_t seed_;
  bool shuffle_;
  int64_t together_;
  std::string name_;
};

}  // namespace telar
