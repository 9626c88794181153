#pragma once

#include <set>

#include "telar/device/cpu/lowering.h"

namespace telar::cpu {

/// Gives every activation region an offset in one block of memory, so that regions with overlapping lives do
/// not overlap. A life lasts from the first step that uses a region (or an alias of it) to the last. Regions
/// in `kept` live until the end. Returns the size of the block in bytes.
size_t plan_memory(std::vector<Region>& regions, const std::vector<Step>& steps,
                   const std::set<RegionId>& kept);

}  // namespace telar::cpu
