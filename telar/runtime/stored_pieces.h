#pragma once

#include <vector>

#include "telar/comm/store/store_layout.h"
#include "telar/graph/piece.h"

namespace telar {

/// The layout in which a parameter server stores these pieces of its program.
StoreLayout stored_layout(const std::vector<Piece>& pieces);

}  // namespace telar
