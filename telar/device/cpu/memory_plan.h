#pragma once

#include <set>

#include "telar/device/cpu/lowering.h"

namespace telar::cpu {

/// Gives every activation region an offset in one block of memory such that regions whose lives overlap do
/// not; a life is from the first step that touches a region (or an alias of it) to the last. Regions in
/// `kept` live to the end. Returns the bytes of the block.
size_t plan_memory(std::vector<Region>& regions, const std::vector<Step>& steps,
                   const std::set<RegionId>& kept);

}  // namespace telar::cpu
