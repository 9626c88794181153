#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "telar/core/number_set.h"

namespace telar {

/// By range, the pieces of work (StoreExchange::work) that were applied to it. A piece is pushed again in the
/// same ranges, because they follow from the layout.
using StoreWorks = std::map<std::pair<size_t, size_t>, NumberSet>;

/// Pieces of work with successive numbers that were applied to a range, as they are stored and sent.
struct WorkRun {
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t first = 0;
  int64_t last = 0;
};

std::vector<WorkRun> runs_of(const StoreWorks& works);
/// Returns false if the run cannot follow those that were added before.
bool add_run(StoreWorks& works, const WorkRun& run);

}  // namespace telar
