#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace telar {

/// The most samples that a dataset may have.
inline constexpr int64_t kMostSamples = int64_t{1} << 48U;

/// The numbers 0 … size-1 in an order that depends only on size, seed and name. Each position is computed
/// when it is asked for, so an order of 10⁹ samples takes no memory.
///
/// A Feistel network with 24 rounds permutes the next power of two; a result of size or more is permuted
/// again until it is below (cycle walking: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA
/// 2002). The rounds are those of Mitchell, Stokes, Frank and Holmes, "Bandwidth-optimal random shuffling for
/// GPUs", ACM Transactions on Parallel Computing 9(1), 2022, which also shows that 24 of them suffice for
/// shuffling.
class Permutation {
 public:
  /// Throws Error (user) for a size below 0 or above kMostSamples.
  Permutation(int64_t size, uint64_t seed, std::string_view name);

  int64_t size() const { return size_; }
  /// Writes the numbers at the positions from `first` on. Many at a time take less time each than one.
  void read(int64_t first, std::span<int64_t> numbers) const;

 private:
  static constexpr size_t kRounds = 24;
  static constexpr size_t kLanes = 8;
  using Lanes = std::array<uint64_t, kLanes>;

  void permute(Lanes& values) const;

  int64_t size_;
  uint32_t left_bits_;  ///< of the halves of a number; the right half has as many or one more
  uint32_t right_bits_;
  std::array<uint32_t, kRounds> keys_{};
};

}  // namespace telar
