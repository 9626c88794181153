#include "telar/comm/store/store_layout.h"

#include "telar/core/error.h"

namespace telar {

StoreLayout StoreLayout::of(std::vector<StoredPiece> pieces) {
  constexpr size_t kAligned = 16;  // floats of a cache line
  StoreLayout layout;
  layout.pieces = std::move(pieces);
  for (const StoredPiece& piece : layout.pieces) {
    if (piece.floats > kMostFloats - layout.floats)
      throw user_error("a parameter server cannot hold '{}' of {} floats; the limit is {} in all", piece.name,
                       piece.floats, kMostFloats);
    layout.offsets.push_back(layout.floats);
    layout.floats += (piece.floats + kAligned - 1) / kAligned * kAligned;
  }
  return layout;
}

std::string difference(const StoreLayout& held, const StoreLayout& other) {
  if (held.pieces.size() != other.pieces.size())
    return fmt::format("{} pieces on the server, but {} in the run", held.pieces.size(), other.pieces.size());
  for (size_t p = 0; p < held.pieces.size(); ++p) {
    const StoredPiece& there = held.pieces[p];
    const StoredPiece& here = other.pieces[p];
    if (there != here)
      return fmt::format("piece {} is '{}' of {} floats on the server, but '{}' of {} in the run", p,
                         there.name, there.floats, here.name, here.floats);
  }
  return {};
}

}  // namespace telar
