#include "telar/data/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "data/support.h"

namespace telar::test {
namespace {

std::vector<int64_t> epoch_of(const Assignment& assignment, uint32_t epoch) {
  std::vector<int64_t> all;
  for (int64_t step = 0; step < assignment.steps(epoch); ++step) {
    const auto samples = assignment.samples(epoch, step);
    all.insert(all.end(), samples.begin(), samples.end());
  }
  return all;
}

std::vector<int64_t> in_order(int64_t size) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

TEST(FixedSlice, AnyNumberOfWorkersCoverEachStepOfOneWorkerInOrder) {
  for (const int64_t workers : {1, 2, 3, 4, 7, 40}) {
    const FixedSlice whole(103, 10, 5, true);
    std::vector<std::unique_ptr<FixedSlice>> parts;
    for (int64_t w = 0; w < workers; ++w) {
      parts.push_back(std::make_unique<FixedSlice>(103, 10, 5, true, Part{w, w + 1, workers}));
    }
    ASSERT_EQ(whole.steps(0), 11);
    for (uint32_t epoch = 0; epoch < 3; ++epoch) {
      for (int64_t step = 0; step < 11; ++step) {
        std::vector<int64_t> together;
        for (const auto& part : parts) {
          const auto samples = part->samples(epoch, step);
          EXPECT_LE(samples.size(), static_cast<size_t>(10 / workers + 1));
          together.insert(together.end(), samples.begin(), samples.end());
        }
        EXPECT_EQ(together, whole.samples(epoch, step));
        EXPECT_EQ(together.size(), step < 10 ? 10U : 3U);
      }
    }
  }
}

TEST(FixedSlice, EveryEpochIsAnotherPermutation) {
  const FixedSlice slice(1000, 32, 11, true);
  auto first = epoch_of(slice, 0);
  auto second = epoch_of(slice, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, epoch_of(slice, 0));
  EXPECT_EQ(first, epoch_of(FixedSlice(1000, 64, 11, true), 0));  // the batch size does not change the order
  EXPECT_NE(first, epoch_of(FixedSlice(1000, 32, 12, true), 0));
  std::sort(first.begin(), first.end());
  EXPECT_EQ(first, in_order(1000));
  std::sort(second.begin(), second.end());
  EXPECT_EQ(second, in_order(1000));
}

TEST(FixedSlice, SharesCanBeSampleCounts) {
  const FixedSlice fast(96, 32, 1, false, {0, 20, 32});
  const FixedSlice slow(96, 32, 1, false, {20, 32, 32});
  EXPECT_EQ(fast.samples(0, 1).size(), 20U);
  EXPECT_EQ(slow.samples(0, 1).size(), 12U);
  EXPECT_EQ(fast.samples(0, 1).front(), 32);
  EXPECT_EQ(slow.samples(0, 1).front(), 52);
  EXPECT_TRUE(FixedSlice(96, 32, 1, false, {7, 7, 32}).samples(0, 0).empty());
}

TEST(FixedSlice, KeepsPiecesTogetherOnRequest) {
  const FixedSlice slice(103, 20, 11, true, {}, 10);
  const auto order = epoch_of(slice, 0);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(order[i] % 10, static_cast<int64_t>(i % 10)) << i;
    EXPECT_EQ(order[i] / 10, order[i / 10 * 10] / 10) << i;
  }
  EXPECT_EQ(order[100], 100) << "the smaller last piece stays last";
  EXPECT_NE(order, in_order(103));
  EXPECT_NE(order, epoch_of(slice, 1));
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, in_order(103));
  LeasedParts leased(103, 20, 11, true, 2, 10);
  leased.add(0, 1);
  EXPECT_EQ(leased.samples(0, 0), std::vector<int64_t>(order.begin() + 10, order.begin() + 20));
}

TEST(FixedSlice, HasAnOrderOfMoreSamplesThanMemoryHolds) {
  constexpr int64_t kSize = int64_t{1} << 40U;
  const FixedSlice slice(kSize, 1000, 7, true);
  const FixedSlice pieces(kSize, 1000, 7, true, {}, 100);
  std::vector<int64_t> ids = slice.samples(0, slice.steps(0) - 1);
  const std::vector<int64_t> first = slice.samples(0, 0);
  EXPECT_EQ(ids.size(), static_cast<size_t>(kSize % 1000));
  ids.insert(ids.end(), first.begin(), first.end());
  for (const int64_t id : ids) EXPECT_TRUE(id >= 0 && id < kSize) << id;
  EXPECT_GT(*std::max_element(ids.begin(), ids.end()), kSize / 2);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(pieces.samples(3, 5)[101], pieces.samples(3, 5)[100] + 1);
}

TEST(WholeBatch, KeepsTheOrderOfTheData) {
  const WholeBatch whole(25, 10);
  EXPECT_EQ(whole.steps(0), 3);
  EXPECT_EQ(epoch_of(whole, 0), in_order(25));
  EXPECT_EQ(epoch_of(whole, 9), in_order(25));
}

TEST(FixedSlice, RejectsImpossibleOptions) {
  expect_error([] { FixedSlice(10, 0, 1, true); }, {"batch of 0"});
  expect_error([] { FixedSlice(0, 5, 1, true); }, {"no samples"});
  expect_error([] { FixedSlice(10, 5, 1, true, {2, 1, 4}); }, {"2 to 1 of 4"});
  expect_error([] { FixedSlice(10, 5, 1, true, {0, 5, 4}); }, {"0 to 5 of 4"});
  expect_error([] { FixedSlice(10, 5, 1, true, {}, 0); }, {"Pieces of 0"});
  EXPECT_THROW(FixedSlice(10, 5, 1, true).samples(0, 2), Error);
}

}  // namespace
}  // namespace telar::test
