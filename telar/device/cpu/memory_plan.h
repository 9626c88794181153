#pragma once

#include <set>

#include "telar/device/cpu/lowering.h"

namespace telar::cpu {

/// Gives every activation slot an offset in one block of memory such that slots whose lives overlap do not; a
/// life is from the first step that touches a slot (or an alias of it) to the last. Slots in `kept` live to the end.
/// Returns the bytes of the block.
size_t plan_memory(std::vector<Slot>& slots, const std::vector<Step>& steps, const std::set<SlotId>& kept);

}  // namespace telar::cpu
