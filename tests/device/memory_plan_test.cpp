#include "telar/device/memory_plan.h"

#include <gtest/gtest.h>

namespace telar {
namespace {

/// Regions with the given numbers of floats, and steps that use them.
struct Plan {
  std::vector<Region<int>> regions;
  std::vector<Step<int>> steps;

  RegionId region(size_t floats) {
    regions.push_back({0, floats * sizeof(float), Place::activation, "", 0, -1});
    return static_cast<RegionId>(regions.size() - 1);
  }
  void step(std::vector<RegionId> touched) {
    Step<int> step{};
    step.regions = std::move(touched);
    steps.push_back(std::move(step));
  }
};

TEST(MemoryPlan, RegionsThatNeverLiveTogetherShareMemory) {
  Plan plan;
  const RegionId a = plan.region(1024);
  const RegionId b = plan.region(1024);
  const RegionId c = plan.region(1024);
  plan.step({a, b});
  plan.step({b, c});
  EXPECT_EQ(plan_memory(plan.regions, plan.steps, {}, 64), 2 * 4096U);
  EXPECT_EQ(plan.regions[static_cast<size_t>(a)].offset, plan.regions[static_cast<size_t>(c)].offset);
}

TEST(MemoryPlan, RegionsThatLiveTogetherDoNotOverlap) {
  Plan plan;
  std::vector<RegionId> regions;
  for (const size_t floats : {10, 1000, 16, 333, 64, 5000, 1}) regions.push_back(plan.region(floats));
  for (size_t i = 0; i + 2 < regions.size(); ++i) plan.step({regions[i], regions[i + 1], regions[i + 2]});
  const size_t total = plan_memory(plan.regions, plan.steps, {}, 64);
  for (size_t i = 0; i < regions.size(); ++i) {
    EXPECT_EQ(plan.regions[i].offset % 64, 0U);
    EXPECT_LE(plan.regions[i].offset + plan.regions[i].bytes, total);
    for (size_t j = i + 1; j < std::min(i + 3, regions.size()); ++j) {
      const bool apart = plan.regions[i].offset + plan.regions[i].bytes <= plan.regions[j].offset ||
                         plan.regions[j].offset + plan.regions[j].bytes <= plan.regions[i].offset;
      EXPECT_TRUE(apart) << i << " and " << j;
    }
  }
}

TEST(MemoryPlan, WhatIsKeptLivesToTheEnd) {
  Plan plan;
  const RegionId a = plan.region(1024);
  const RegionId b = plan.region(1024);
  plan.step({a});
  plan.step({b});
  EXPECT_EQ(plan_memory(plan.regions, plan.steps, {a}, 64), 2 * 4096U);
}

}  // namespace
}  // namespace telar
