#include "telar/device/cpu/memory_plan.h"

#include <algorithm>

#include "telar/core/buffer.h"

namespace telar::cpu {

namespace {

struct Life {
  SlotId slot = -1;
  size_t bytes = 0;
  int first = -1;
  int last = -1;
  size_t offset = 0;
};

SlotId root_of(const std::vector<Slot>& slots, SlotId slot) {
  while (slots[static_cast<size_t>(slot)].alias_of >= 0) slot = slots[static_cast<size_t>(slot)].alias_of;
  return slot;
}

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
  std::vector<Life> activations;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].place != Place::activation || slots[i].alias_of >= 0 || lives[i].first < 0) continue;
    lives[i].slot = static_cast<SlotId>(i);
    lives[i].bytes = align_up(slots[i].bytes);
    activations.push_back(lives[i]);
  }
  return activations;
}

/// The lowest offset at which `life` meets none of the placed lives that exist at the same time.
size_t lowest_offset(const Life& life, const std::vector<Life>& placed_by_offset) {
  size_t offset = 0;
  for (const Life& other : placed_by_offset) {
    if (other.last < life.first || life.last < other.first) continue;
    if (offset + life.bytes <= other.offset) break;
    offset = std::max(offset, other.offset + other.bytes);
  }
  return offset;
}

}  // namespace

size_t plan_memory(std::vector<Slot>& slots, const std::vector<Step>& steps, const std::set<SlotId>& kept) {
  std::vector<Life> lives = lives_of(slots, steps, kept);
  std::stable_sort(lives.begin(), lives.end(),
                   [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  std::vector<Life> placed;
  size_t total = 0;
  for (Life& life : lives) {
    life.offset = lowest_offset(life, placed);
    const auto behind = std::upper_bound(placed.begin(), placed.end(), life,
                                         [](const Life& a, const Life& b) { return a.offset < b.offset; });
    placed.insert(behind, life);
    total = std::max(total, life.offset + life.bytes);
    slots[static_cast<size_t>(life.slot)].offset = life.offset;
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].alias_of >= 0)
      slots[i].offset = slots[static_cast<size_t>(root_of(slots, static_cast<SlotId>(i)))].offset;
  }
  return total;
}

}  // namespace telar::cpu
