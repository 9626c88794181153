#pragma once

#include <algorithm>
#include <cstdint>

namespace telar::cuda {

/// How a reduction of `length` terms to each of `results` is cut into pieces, so that there is work for all
/// threads of a GPU where there are few results; what the pieces give is then reduced. Depends on the extents
/// alone: the same job gives the same bits twice.
struct Pieces {
  int64_t results = 1;
  int64_t length = 1;
  bool columns =
      false;  ///< a thread makes a whole piece, beside its neighbours' results; else some threads share a piece
  int64_t count = 1;  ///< of a result
  int64_t each = 1;   ///< terms of a piece; the last one may have fewer

  /// Numbers that lie between the two reductions.
  constexpr int64_t between() const { return count > 1 ? results * count : 0; }
};

/// `beside`: whether it is the terms of neighbouring results that lie beside each other, and not those of one
/// result.
constexpr Pieces pieces_of(int64_t results, int64_t length, bool beside) {
  constexpr int64_t kThreadsWanted = int64_t{1} << 18;  // what the largest GPUs can hold
  constexpr int64_t kMostOfOneThread = 32;              // short enough not to wait for
  constexpr int64_t kSmall = int64_t{1} << 16;   // in a cache, where it matters little what lies beside what
  constexpr int64_t kSharing = 256;              // threads of a piece
  constexpr int64_t kMostPiecesOfAResult = 512;  // what is left for the second reduction
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
