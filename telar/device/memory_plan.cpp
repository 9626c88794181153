#include "telar/device/memory_plan.h"

#include <algorithm>
#include <vector>

namespace telar {

namespace {

/// The lowest offset at which `life` overlaps no placed life that exists at the same time.
size_t lowest_offset(const Life& life, const std::vector<const Life*>& placed_by_offset) {
  size_t offset = 0;
  for (const Life* other : placed_by_offset) {
    if (other->last < life.first || life.last < other->first) continue;
    if (offset + life.bytes <= other->offset) break;
    offset = std::max(offset, other->offset + other->bytes);
  }
  return offset;
}

}  // namespace

size_t place_lives(std::span<Life> lives) {
  std::vector<Life*> by_size;
  for (Life& life : lives) by_size.push_back(&life);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Life* a, const Life* b) { return a->bytes > b->bytes; });
  std::vector<const Life*> placed;
  size_t total = 0;
  for (Life* life : by_size) {
    life->offset = lowest_offset(*life, placed);
    const auto behind = std::upper_bound(placed.begin(), placed.end(), life,
                                         [](const Life* a, const Life* b) { return a->offset < b->offset; });
    placed.insert(behind, life);
    total = std::max(total, life->offset + life->bytes);
  }
  return total;
}

}  // namespace telar
