#include "telar/data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "data/support.h"

namespace telar::test {
namespace {

std::vector<int64_t> order_of(int64_t size, uint64_t seed, std::string_view name) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  Permutation(size, seed, name).read(0, order);
  return order;
}

/// By how many standard deviations χ² of these counts, all expected to be `each`, exceeds its mean. `scale`
/// brings the sum of squares to that of `freedom` independent normal numbers.
double deviations(const std::vector<int64_t>& counts, double each, double freedom, double scale = 1) {
  double chi = 0;
  for (const int64_t count : counts) chi += scale * std::pow(static_cast<double>(count) - each, 2) / each;
  return (chi - freedom) / std::sqrt(2 * freedom);
}

TEST(Permutation, HoldsEachNumberOnceForEverySizeAndKey) {
  for (int64_t size = 0; size <= 300; ++size) {
    std::vector<int64_t> expected(static_cast<size_t>(size));
    std::iota(expected.begin(), expected.end(), int64_t{0});
    for (uint64_t seed = 0; seed < 20; ++seed) {
      std::vector<int64_t> order = order_of(size, seed, "a");
      std::sort(order.begin(), order.end());
      ASSERT_EQ(order, expected) << size << " with seed " << seed;
    }
  }
  for (const int64_t size : {4095, 4096, 4097, 60000}) {
    std::vector<int64_t> order = order_of(size, 1, "a");
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST(Permutation, DependsOnSeedAndName) {
  EXPECT_EQ(order_of(60000, 1, "a"), order_of(60000, 1, "a"));
  EXPECT_NE(order_of(60000, 1, "a"), order_of(60000, 2, "a"));
  EXPECT_NE(order_of(60000, 1, "a"), order_of(60000, 1, "b"));
}

// A run that is resumed by another version of telar must find the order of its epoch: kOrderVersion.
TEST(Permutation, HasTheOrderOfItsVersion) {
  EXPECT_EQ(order_of(10, 1, "shuffle/0"), (std::vector<int64_t>{0, 1, 2, 6, 3, 7, 9, 8, 5, 4}));
  std::vector<int64_t> numbers(3);
  Permutation(1'000'000'000, 1, "shuffle/0").read(999'999'990, numbers);
  EXPECT_EQ(numbers, (std::vector<int64_t>{145371834, 899055137, 456815392}));
}

TEST(Permutation, APartHasTheNumbersOfTheWhole) {
  const std::vector<int64_t> whole = order_of(1000, 3, "a");
  for (const size_t count : {1, 2, 7, 8, 9, 64, 123}) {
    std::vector<int64_t> part(count);
    Permutation(1000, 3, "a").read(500, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 500)) << count;
  }
}

TEST(Permutation, EveryOrderOfFewNumbersIsEquallyLikely) {
  std::map<std::vector<int64_t>, int64_t> seen;
  for (uint64_t seed = 0; seed < 24000; ++seed) ++seen[order_of(4, seed, "order")];
  ASSERT_EQ(seen.size(), 24U);
  std::vector<int64_t> counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  EXPECT_LT(std::abs(deviations(counts, 1000, 23)), 4);
}

TEST(Permutation, EveryNumberIsEquallyLikelyAtEveryPosition) {
  for (const size_t size : {2, 3, 10, 33, 64, 100}) {
    const size_t keys = 100 * size;
    std::vector<int64_t> counts(size * size);
    for (uint64_t seed = 0; seed < keys; ++seed) {
      const std::vector<int64_t> order = order_of(static_cast<int64_t>(size), seed, "a");
      for (size_t i = 0; i < size; ++i) ++counts[i * size + static_cast<size_t>(order[i])];
    }
    // Each key adds a permutation matrix. Its deviations from the mean 1/n span (n − 1)² dimensions, in each
    // of which their variance is n / (n − 1) times that of counts of a χ² test.
    const auto others = static_cast<double>(size - 1);
    EXPECT_LT(std::abs(deviations(counts, 100, others * others, others / (others + 1))), 4) << size;
  }
}

/// The distances between neighbours, which a weak cipher repeats.
TEST(Permutation, NeighboursAreUnrelated) {
  constexpr size_t kSize = 101;
  std::vector<int64_t> counts(kSize - 1);
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::vector<int64_t> order = order_of(kSize, seed, "a");
    for (size_t i = 1; i < kSize; ++i)
      ++counts[(static_cast<size_t>(order[i]) + kSize - static_cast<size_t>(order[i - 1])) % kSize - 1];
  }
  EXPECT_LT(std::abs(deviations(counts, 1000, kSize - 2)), 4);
}

TEST(Permutation, ConsecutiveEpochsHaveUnrelatedOrders) {
  constexpr int64_t kSize = 10000;
  std::vector<int64_t> before = order_of(kSize, 1, "shuffle/0");
  for (int epoch = 1; epoch < 20; ++epoch) {
    const std::vector<int64_t> order = order_of(kSize, 1, "shuffle/" + std::to_string(epoch));
    int64_t same = 0;
    for (size_t i = 0; i < order.size(); ++i) same += order[i] == before[i] ? 1 : 0;
    EXPECT_LT(same, 8) << epoch;  // of two random orders, one number is at the same position on average
    before = order;
  }
}

TEST(Permutation, RejectsImpossibleSizes) {
  expect_error([] { Permutation(-1, 1, "a"); }, {"-1 samples"});
  expect_error([] { Permutation(kMostSamples + 1, 1, "a"); }, {"281474976710657 samples", "281474976710656"});
}

}  // namespace
}  // namespace telar::test
