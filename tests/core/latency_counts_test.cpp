#include "telar/core/latency_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/sentences.h"

namespace telar {
namespace {

TEST(LatencyCounts, QuantilesAreWithinFivePerCent) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> seconds(-2, 2);
  std::vector<double> all;
  LatencyCounts even;
  LatencyCounts odd;
  for (int i = 0; i < 20'000; ++i) {
    all.push_back(std::max(1e-3, seconds(random)));
    (i % 2 == 0 ? even : odd).add(all.back());
  }
  even.add(LatencyCounts(odd.classes()));
  EXPECT_EQ(even.count(), 20'000);
  std::ranges::sort(all);
  for (const double share : {0.05, 0.5, 0.9, 0.99}) {
    const double right = all[static_cast<size_t>(share * 20'000)];
    EXPECT_NEAR(even.quantile(share) / right, 1, 0.06) << share;
  }
}

TEST(LatencyCounts, WhatIsOutOfItsRangeCounts) {
  LatencyCounts counts;
  EXPECT_EQ(counts.quantile(0.5), 0);
  counts.add(-3);
  counts.add(0);
  EXPECT_NEAR(counts.quantile(0.99), 1e-3, 1e-4);
  counts.add(1e18);
  EXPECT_EQ(counts.count(), 3);
  EXPECT_LE(counts.classes().size(), LatencyCounts::kMostClasses);
  const std::vector<uint64_t> many(LatencyCounts::kMostClasses + 1);
  test::expect_error([&] { LatencyCounts{std::span(many)}; }, {"there are at most 256"});
}

/// A run without an end has more messages than a process or a step.
TEST(LatencyCounts, TheSumOfManyIsRight) {
  const std::vector<uint64_t> some = {3'000'000'000, 0, 0, 0, 0, 0, 0, 0, 1};
  LatencyCounts sum;
  for (int i = 0; i < 5; ++i) sum.add(LatencyCounts(some));
  EXPECT_EQ(sum.count(), 15'000'000'005);
  EXPECT_NEAR(sum.quantile(1), 2e-3, 1e-4);
}

}  // namespace
}  // namespace telar
