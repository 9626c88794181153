#include "telar/device/cpu/memory_plan.h"

#include <algorithm>

#include "telar/core/buffer.h"
#include "telar/device/memory_plan.h"

namespace telar::cpu {

namespace {

SlotId root_of(const std::vector<Slot>& slots, SlotId slot) {
  while (slots[static_cast<size_t>(slot)].alias_of >= 0) slot = slots[static_cast<size_t>(slot)].alias_of;
  return slot;
}

/// The life of each slot; those of slots that nothing touches begin at −1.
std::vector<Life> lives_of(const std::vector<Slot>& slots, const std::vector<Step>& steps,
                           const std::set<SlotId>& kept) {
  std::vector<Life> lives(slots.size());
  const auto touch = [&](SlotId slot, int step) {
    Life& life = lives[static_cast<size_t>(root_of(slots, slot))];
    if (life.first < 0) life.first = step;
    life.last = std::max(life.last, step);
  };
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const auto& argument : steps[s].arguments) touch(argument.second, static_cast<int>(s));
    for (const SlotId slot : steps[s].slots) touch(slot, static_cast<int>(s));
  }
  for (const SlotId slot : kept) touch(slot, static_cast<int>(steps.size()));
  return lives;
}

}  // namespace

size_t plan_memory(std::vector<Slot>& slots, const std::vector<Step>& steps, const std::set<SlotId>& kept) {
  const std::vector<Life> all = lives_of(slots, steps, kept);
  std::vector<Life> lives;
  std::vector<size_t> activations;  // whose lives these are
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].place != Place::activation || slots[i].alias_of >= 0 || all[i].first < 0) continue;
    lives.push_back({align_up(slots[i].bytes), all[i].first, all[i].last});
    activations.push_back(i);
  }
  const size_t total = place_lives(lives);
  for (size_t i = 0; i < lives.size(); ++i) slots[activations[i]].offset = lives[i].offset;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].alias_of >= 0)
      slots[i].offset = slots[static_cast<size_t>(root_of(slots, static_cast<SlotId>(i)))].offset;
  }
  return total;
}

}  // namespace telar::cpu
