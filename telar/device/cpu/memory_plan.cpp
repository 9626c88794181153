#include "telar/device/cpu/memory_plan.h"

#include <algorithm>

#include "telar/core/buffer.h"
#include "telar/device/memory_plan.h"

namespace telar::cpu {

namespace {

RegionId root_of(const std::vector<Region>& regions, RegionId region) {
  while (regions[static_cast<size_t>(region)].alias_of >= 0)
    region = regions[static_cast<size_t>(region)].alias_of;
  return region;
}

/// The life of each region. Regions that no step uses have lives that begin at −1.
std::vector<Life> lives_of(const std::vector<Region>& regions, const std::vector<Step>& steps,
                           const std::set<RegionId>& kept) {
  std::vector<Life> lives(regions.size());
  const auto touch = [&](RegionId region, int step) {
    Life& life = lives[static_cast<size_t>(root_of(regions, region))];
    if (life.first < 0) life.first = step;
    life.last = std::max(life.last, step);
  };
  for (size_t s = 0; s < steps.size(); ++s) {
    for (const auto& argument : steps[s].arguments) touch(argument.second, static_cast<int>(s));
    for (const RegionId region : steps[s].regions) touch(region, static_cast<int>(s));
  }
  for (const RegionId region : kept) touch(region, static_cast<int>(steps.size()));
  return lives;
}

}  // namespace

size_t plan_memory(std::vector<Region>& regions, const std::vector<Step>& steps,
                   const std::set<RegionId>& kept) {
  const std::vector<Life> all = lives_of(regions, steps, kept);
  std::vector<Life> lives;
  std::vector<size_t> activations;  // regions of these lives
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].place != Place::activation || regions[i].alias_of >= 0 || all[i].first < 0) continue;
    lives.push_back({align_up(regions[i].bytes), all[i].first, all[i].last});
    activations.push_back(i);
  }
  const size_t total = place_lives(lives);
  for (size_t i = 0; i < lives.size(); ++i) regions[activations[i]].offset = lives[i].offset;
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].alias_of >= 0)
      regions[i].offset = regions[static_cast<size_t>(root_of(regions, static_cast<RegionId>(i)))].offset;
  }
  return total;
}

}  // namespace telar::cpu
