#pragma once

#include <map>
#include <string>
#include <vector>

#include "telar/comm/processes.h"
#include "telar/graph/program.h"
#include "telar/runtime/shared_state.h"

namespace telar {

/// A piece of a parameter, and the lowest process that keeps it.
struct OwnedPiece {
  Piece piece;
  int process = 0;
};

/// The pieces of every parameter that only some workers keep, or of which they keep parts, by the parameter's
/// name; together they are the parameter. Empty if every worker keeps everything.
using PieceOwners = std::map<std::string, std::vector<OwnedPiece>>;

/// Throws Error (run) when pieces overlap or are missing.
PieceOwners piece_owners(const Program& program);

/// The byte ranges of the arenas that each process updates, where each worker updates a share of its own
/// (Update::of_all).
using PartOwners = std::vector<ByteRanges>;

/// `own`: the ranges of this process. `processes`: null if there is only one, otherwise all of them call
/// this. Waits.
PartOwners part_owners(const ByteRanges& own, Processes* processes);

}  // namespace telar
