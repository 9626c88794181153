#include "telar/runtime/stored_pieces.h"

namespace telar {

StoreLayout stored_layout(const std::vector<Piece>& pieces) {
  std::vector<StoredPiece> stored;
  for (const Piece& piece : pieces) stored.push_back({piece.name(), static_cast<size_t>(piece.floats())});
  return StoreLayout::of(std::move(stored));
}

}  // namespace telar
