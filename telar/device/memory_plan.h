#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <vector>

#include "telar/device/lowering.h"

namespace telar {

/// A block of memory that an executable needs from step `first` to step `last`, inclusive.
struct Life {
  size_t bytes = 0;  ///< a multiple of the device's alignment
  int first = -1;
  int last = -1;
  size_t offset = 0;  ///< set by place_lives
};

/// Gives every life an offset in one block of memory, so that lives that overlap in time share no byte.
/// Greedy by size (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
/// Returns the size of the block in bytes.
size_t place_lives(std::span<Life> lives);

/// Gives every activation region an offset in one block of memory, a multiple of `alignment` bytes, so that
/// regions with overlapping lives do not overlap. A life lasts from the first step that uses a region (or an
/// alias of it) to the last. Regions in `kept` live until the end. Returns the size of the block in bytes.
template <typename Layout, typename Work>
size_t plan_memory(std::vector<Region<Layout>>& regions, const std::vector<Step<Work>>& steps,
                   const std::set<RegionId>& kept, size_t alignment) {
  std::vector<size_t> roots(regions.size());  // aliases come after the regions that they describe
  for (size_t i = 0; i < regions.size(); ++i)
    roots[i] = regions[i].alias_of < 0 ? i : roots[static_cast<size_t>(regions[i].alias_of)];
  std::vector<Life> used(regions.size());  // from −1 on where no step uses the region
  const auto touch = [&](RegionId region, size_t step) {
    Life& life = used[roots[static_cast<size_t>(region)]];
    if (life.first < 0) life.first = static_cast<int>(step);
    life.last = std::max(life.last, static_cast<int>(step));
  };
  for (size_t s = 0; s < steps.size(); ++s)
    for (const RegionId region : steps[s].regions) touch(region, s);
  for (const RegionId region : kept) touch(region, steps.size());
  std::vector<Life> lives;
  std::vector<size_t> activations;  // regions of these lives
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].place != Place::activation || roots[i] != i || used[i].first < 0) continue;
    used[i].bytes = (regions[i].bytes + alignment - 1) / alignment * alignment;
    lives.push_back(used[i]);
    activations.push_back(i);
  }
  const size_t total = place_lives(lives);
  for (size_t i = 0; i < lives.size(); ++i) regions[activations[i]].offset = lives[i].offset;
  for (size_t i = 0; i < regions.size(); ++i) regions[i].offset = regions[roots[i]].offset;
  return total;
}

}  // namespace telar
