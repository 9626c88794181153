#pragma once

#include <algorithm>
#include <cstdint>

namespace telar::cuda {

/// How a reduction of `length` terms to each of `results` is divided into pieces, so that all threads of a
/// GPU have work when there are few results. A second reduction combines the results of the pieces. The
/// division depends on the extents only, so the same job produces the same bits each time.
struct Pieces {
  int64_t results = 1;
  int64_t length = 1;
  /// true: a thread computes a whole piece, next to neighbouring results; false: several threads share a
  /// piece.
  bool columns = false;
  int64_t count = 1;  ///< pieces of a result
  int64_t each = 1;   ///< terms of a piece; the last one may have fewer

  /// Numbers that pass from the first reduction to the second.
  constexpr int64_t between() const { return count > 1 ? results * count : 0; }
};

/// `beside`: whether the terms of neighbouring results are adjacent in memory, instead of the terms of one
/// result.
constexpr Pieces pieces_of(int64_t results, int64_t length, bool beside) {
  constexpr int64_t kThreadsWanted = int64_t{1} << 18;  // the capacity of the largest GPUs
  constexpr int64_t kMostOfOneThread = 32;              // short enough for one thread
  constexpr int64_t kSmall = int64_t{1} << 16;   // fits in a cache, where the order in memory matters little
  constexpr int64_t kSharing = 256;              // threads that share a piece
  constexpr int64_t kMostPiecesOfAResult = 512;  // limits the second reduction
  Pieces pieces{results, length, false, 1, length};
  pieces.columns = length <= kMostOfOneThread || (beside && results * length > kSmall);
  const int64_t threads = pieces.columns ? results : results * kSharing;
  const int64_t shortest = pieces.columns ? kMostOfOneThread : 16 * kSharing;
  const int64_t wanted = std::min({kThreadsWanted / threads, length / shortest, kMostPiecesOfAResult});
  pieces.each = (length + std::max<int64_t>(1, wanted) - 1) / std::max<int64_t>(1, wanted);
  pieces.count = (length + pieces.each - 1) / pieces.each;
  return pieces;
}

}  // namespace telar::cuda
