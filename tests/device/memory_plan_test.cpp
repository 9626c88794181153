#include "telar/device/cpu/memory_plan.h"

#include <gtest/gtest.h>

namespace telar::cpu {
namespace {

/// Slots of so many floats, and steps that touch them.
struct Plan {
  std::vector<Slot> slots;
  std::vector<Step> steps;

  SlotId slot(int64_t floats) {
    const Desc desc = plain(DType::f32, {floats});
    slots.push_back({desc, desc.get_size(), Place::activation, "", 0, -1});
    return static_cast<SlotId>(slots.size() - 1);
  }
  void step(std::vector<SlotId> touched) {
    Step step;
    step.slots = std::move(touched);
    steps.push_back(std::move(step));
  }
};

TEST(MemoryPlan, SlotsThatNeverLiveTogetherShareMemory) {
  Plan plan;
  const SlotId a = plan.slot(1024);
  const SlotId b = plan.slot(1024);
  const SlotId c = plan.slot(1024);
  plan.step({a, b});
  plan.step({b, c});
  EXPECT_EQ(plan_memory(plan.slots, plan.steps, {}), 2 * 4096U);
  EXPECT_EQ(plan.slots[static_cast<size_t>(a)].offset, plan.slots[static_cast<size_t>(c)].offset);
}

TEST(MemoryPlan, SlotsThatLiveTogetherDoNotOverlap) {
  Plan plan;
  std::vector<SlotId> slots;
  for (const int64_t floats : {10, 1000, 16, 333, 64, 5000, 1}) slots.push_back(plan.slot(floats));
  for (size_t i = 0; i + 2 < slots.size(); ++i) plan.step({slots[i], slots[i + 1], slots[i + 2]});
  const size_t total = plan_memory(plan.slots, plan.steps, {});
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(plan.slots[i].offset % 64, 0U);
    EXPECT_LE(plan.slots[i].offset + plan.slots[i].bytes, total);
    for (size_t j = i + 1; j < std::min(i + 3, slots.size()); ++j) {
      const bool apart = plan.slots[i].offset + plan.slots[i].bytes <= plan.slots[j].offset ||
                         plan.slots[j].offset + plan.slots[j].bytes <= plan.slots[i].offset;
      EXPECT_TRUE(apart) << i << " and " << j;
    }
  }
}

TEST(MemoryPlan, WhatIsKeptLivesToTheEnd) {
  Plan plan;
  const SlotId a = plan.slot(1024);
  const SlotId b = plan.slot(1024);
  plan.step({a});
  plan.step({b});
  EXPECT_EQ(plan_memory(plan.slots, plan.steps, {a}), 2 * 4096U);
}

}  // namespace
}  // namespace telar::cpu
