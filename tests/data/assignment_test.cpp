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

std::vector<SpreadSlice> slices_of(const std::vector<int64_t>& parts, int64_t batch, bool shuffle = true) {
  std::vector<SpreadSlice> slices;
  for (size_t own = 0; own < parts.size(); ++own) slices.emplace_back(parts, own, batch, 5, shuffle);
  return slices;
}

TEST(SpreadSlice, EachSampleIsUsedOnceInAnEpochByTheWorkerThatHasIt) {
  for (const std::vector<int64_t>& parts :
       {std::vector<int64_t>{37, 61}, {1, 100, 2}, {30, 0, 30, 7}, {103}}) {
    const auto slices = slices_of(parts, 10);
    std::vector<int64_t> all;
    for (int64_t step = 0; step < slices[0].steps(1); ++step) {
      int64_t samples = 0;
      int64_t first = 0;
      for (size_t part = 0; part < parts.size(); first += parts[part++]) {
        for (const int64_t sample : slices[part].samples(1, step)) {
          EXPECT_TRUE(sample >= first && sample < first + parts[part]) << "of another part: " << sample;
          all.push_back(sample);
          ++samples;
        }
      }
      EXPECT_EQ(samples, slices[0].batch_samples(1, step)) << "step " << step;
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, in_order(std::accumulate(parts.begin(), parts.end(), int64_t{0})));
  }
}

TEST(SpreadSlice, PartsHaveTheirProportionOfEveryBatch) {
  const std::vector<int64_t> parts = {1000, 3000, 501};
  const auto slices = slices_of(parts, 16);
  for (size_t part = 0; part < parts.size(); ++part) {
    double used = 0;
    for (int64_t step = 0; step < slices[part].steps(0); ++step) {
      used += static_cast<double>(slices[part].samples(0, step).size());
      const auto all = static_cast<double>(std::min<int64_t>(16 * (step + 1), 4501));
      EXPECT_NEAR(used, all * static_cast<double>(parts[part]) / 4501, 2) << "step " << step;
    }
  }
  for (const SpreadSlice& slice : slices_of({40, 40}, 8)) {
    for (int64_t step = 0; step < 10; ++step) EXPECT_EQ(slice.samples(0, step).size(), 4U);
  }
}

TEST(SpreadSlice, OnePartIsOrderedLikeSamplesThatAllWorkersHave) {
  EXPECT_EQ(epoch_of(SpreadSlice({103}, 0, 10, 5, true), 2), epoch_of(FixedSlice(103, 10, 5, true), 2));
  EXPECT_EQ(epoch_of(SpreadSlice({50, 3}, 1, 10, 5, false), 2), (std::vector<int64_t>{50, 51, 52}));
}

TEST(SpreadSlice, PartsOfEqualSizeHaveDifferentOrders) {
  const auto slices = slices_of({500, 500}, 10);
  std::vector<int64_t> second = epoch_of(slices[1], 0);
  for (int64_t& sample : second) sample -= 500;
  EXPECT_NE(epoch_of(slices[0], 0), second);
}

TEST(SpreadSlice, AnotherBatchContinuesAtTheSameSampleOfEachPart) {
  const std::vector<int64_t> parts = {37, 61, 8};
  const auto wide = slices_of(parts, 12);
  const auto narrow = slices_of(parts, 4);
  for (size_t part = 0; part < parts.size(); ++part) {
    std::vector<int64_t> samples;
    for (int64_t step = 6; step < 9; ++step) {
      const auto more = narrow[part].samples(0, step);
      samples.insert(samples.end(), more.begin(), more.end());
    }
    EXPECT_EQ(samples, wide[part].samples(0, 2));
  }
}

TEST(SpreadSlice, OverATrillionSamplesNothingOverflows) {
  const std::vector<int64_t> parts = {int64_t{1} << 40U, int64_t{3} << 40U};
  const auto slices = slices_of(parts, 64, false);
  const int64_t last = slices[0].steps(0) - 1;
  EXPECT_EQ(slices[0].samples(0, last).back(), parts[0] - 1);
  EXPECT_EQ(slices[1].samples(0, last).back(), parts[0] + parts[1] - 1);
  EXPECT_EQ(slices[1].samples(0, last).size(), 48U);
}

TEST(SpreadSlice, NeedsSamples) {
  expect_error([] { SpreadSlice({0, 0}, 1, 10, 5, true); }, {"no samples"});
  expect_error([] { SpreadSlice({3, 4}, 1, 0, 5, true); }, {"A batch of 0 samples"});
}

TEST(FixedSlice, AWorkerHasNoneOrAsManySamplesAsItNeeds) {
  for (const int64_t workers : {1, 2, 3, 4, 7}) {
    for (int64_t batch = 2; batch < 20; ++batch) {
      int64_t end = 0;
      for (int64_t w = 0; w < workers; ++w) {
        const Part part{w, w + 1, workers, 2};
        EXPECT_EQ(part.first(batch), end);
        end = part.last(batch);
        EXPECT_NE(end - part.first(batch), 1) << w << " of " << workers << ", " << batch << " samples";
      }
      EXPECT_EQ(end, batch);
    }
  }
}

}  // namespace
}  // namespace telar::test
