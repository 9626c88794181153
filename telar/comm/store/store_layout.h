#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace telar {

/// A variable, or some of its rows, as stored on a parameter server: canonical order, f32.
struct StoredPiece {
  std::string name;  ///< "conv1.weight", or "fc.weight[0:512]" for rows 0 … 511
  size_t floats = 0;
  bool operator==(const StoredPiece&) const = default;
};

/// Where the pieces of one server are in its arenas (parameters, and each kind of optimizer state): one after
/// the other, each at a multiple of 16 floats (64 bytes). Workers use the same order for what they push and
/// pull, so a range of floats means the same everywhere.
struct StoreLayout {
  /// 4 TiB; keeps the products of sizes within 64 bits.
  static constexpr size_t kMostFloats = size_t{1} << 40;

  std::vector<StoredPiece> pieces;
  std::vector<size_t> offsets;  ///< of each piece, in floats
  size_t floats = 0;            ///< of one arena

  /// Throws Error (user) if an arena of these pieces has more than kMostFloats.
  static StoreLayout of(std::vector<StoredPiece> pieces);
  bool operator==(const StoreLayout&) const = default;
};

/// How the layout `other` of a run differs from the one that a server holds, as the end of a sentence; empty
/// if they are equal.
std::string difference(const StoreLayout& held, const StoreLayout& other);

}  // namespace telar
