#include "telar/runtime/stage_updates.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace telar {
namespace {

/// Two stages, of which the first keeps far more, make three steps.
TEST(StageUpdates, UpdateEachByteOnceAndReturnWhenTheirOwnAreMade) {
  const std::vector<ByteRanges> ranges{{{64, 3 << 20}, {4 << 20, 40 << 20}}, {{0, 1000}}};
  StageUpdates updates(2);
  std::vector<std::vector<std::atomic<int>>> counts(2);
  for (auto& of_stage : counts) of_stage = std::vector<std::atomic<int>>((40 << 20) / 8);
  for (int step = 1; step <= 3; ++step) {
    const auto apply = [&](size_t stage) {
      return [&counts, stage, step](size_t begin, size_t end, double sum_of_squares) {
        EXPECT_EQ(sum_of_squares, step);
        for (size_t at = begin / 8; at < end / 8; ++at) ++counts[stage][at];
        return !(step == 2 && stage == 0 && begin == (4 << 20));
      };
    };
    for (const size_t stage : {0, 1}) updates.begin(stage, ranges[stage], apply(stage));
    const auto make = [&](size_t stage) {
      const bool finite = updates.make(stage, step);
      EXPECT_EQ(finite, step != 2 || stage == 1);
      for (const auto& [begin, end] : ranges[stage])
        for (size_t at = begin / 8; at < end / 8; ++at) ASSERT_EQ(counts[stage][at], step);
    };
    std::thread other(make, 1);
    make(0);
    other.join();
  }
  EXPECT_EQ(counts[0][0], 0);
  EXPECT_EQ(counts[0][(3 << 20) / 8], 0);
}

TEST(StageUpdates, AreMadeByTheOthersWhileAStageIsAway) {
  StageUpdates updates(2);
  std::atomic<int> made{0};
  const auto apply = [&](size_t, size_t, double) { return ++made > 0; };
  updates.begin(0, {{0, 8 << 20}}, apply);
  updates.begin(1, {{0, 8 << 20}}, apply);
  EXPECT_TRUE(updates.make(0, 0));
  EXPECT_EQ(made, 64);
  EXPECT_TRUE(updates.make(1, 0));
  EXPECT_EQ(made, 64);
}

}  // namespace
}  // namespace telar
