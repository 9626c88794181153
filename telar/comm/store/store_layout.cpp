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

}  // namespace telar
