#pragma once

#include <map>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/graph/program.h"

namespace telar {

/// A piece of a parameter, and the lowest process that keeps it.
struct OwnedPiece {
  Piece piece;
  int process = 0;
};

/// The pieces of every parameter that only some workers keep, or of which they keep parts, by the parameter's
/// name; together they are the parameter. Empty for a program without holdings.
using PieceOwners = std::map<std::string, std::vector<OwnedPiece>>;

/// `processes`: null if there is only one, otherwise all of them call this. Waits. Throws Error (run) when
/// pieces overlap or are missing.
PieceOwners piece_owners(const Program& program, Processes* processes);

}  // namespace telar
