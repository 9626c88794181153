#pragma once

#include <cstdint>
#include <vector>

namespace telar {

/// The contributors to a synchronous update, in the order in which their contributions are summed. Given by
/// the coordinator, one round after another: when it forms one, no live member of an earlier one still waits
/// for its update.
struct StoreRound {
  int64_t number = 0;             ///< increases by 1 from round to round of a run
  std::vector<uint32_t> members;  ///< ids of the contributing members; empty: none is to contribute
};

}  // namespace telar
