#pragma once

#include <cstdint>
#include <vector>

namespace telar {

/// Who contributes to a synchronous update, in the order in which contributions are summed. Given by the coordinator.
struct StoreRound {
  int64_t number = 0;             ///< grows by 1 from round to round of a run
  std::vector<uint32_t> members;  ///< ids of the members that contribute; never empty
};

}  // namespace telar
