#include "telar/data/division.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "support/sentences.h"

namespace telar {
namespace {

using test::expect_error;

using Numbers = std::vector<int64_t>;

constexpr int64_t kSize = 103;

Numbers numbers_of(const Selection& selection) {
  Numbers numbers;
  for (int64_t i = 0; i < selection.count(); ++i) numbers.push_back(selection[i]);
  return numbers;
}

DividedSamples random_part(int64_t size, double fraction, uint64_t seed) {
  return divide_samples(size, SplitBy::random, {}, {.fraction = fraction}, seed);
}

/// 61, 29 and 13 samples of three classes, mixed; the first sample is of class 0.
SplitKeys classes() {
  SplitKeys keys;
  for (int64_t i = 0; i < kSize; ++i) {
    const int64_t place = i * 37 % kSize;
    keys.push_back(place < 61 ? 0 : place < 90 ? 1 : 2);
  }
  return keys;
}

/// 9 groups.
SplitKeys groups() {
  SplitKeys keys;
  for (int64_t i = 0; i < kSize; ++i) keys.push_back(i * i % 17);
  return keys;
}

std::vector<DividedSamples> folds_of(SplitBy by, const SplitKeys& keys, int64_t folds, uint64_t seed = 1) {
  std::vector<DividedSamples> divisions;
  for (int64_t fold = 1; fold <= folds; ++fold)
    divisions.push_back(divide_samples(kSize, by, keys, {.folds = folds, .fold = fold}, seed));
  return divisions;
}

std::array<int64_t, 3> count_classes(const Selection& selection) {
  const SplitKeys keys = classes();
  std::array<int64_t, 3> counts{};
  for (const int64_t sample : numbers_of(selection)) ++counts.at(static_cast<size_t>(keys.at(sample)));
  return counts;
}

std::set<int64_t> groups_in(const Selection& selection) {
  const SplitKeys keys = groups();
  std::set<int64_t> found;
  for (const int64_t sample : numbers_of(selection)) found.insert(keys.at(sample));
  return found;
}

/// Each sample is in one of the two parts.
void expect_complete(const DividedSamples& division, int64_t size = kSize) {
  Numbers all = numbers_of(division.train);
  const Numbers held_out = numbers_of(division.held_out);
  all.insert(all.end(), held_out.begin(), held_out.end());
  std::ranges::sort(all);
  Numbers wanted(static_cast<size_t>(size));
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(all, wanted);
}

TEST(Division, PartsAreDisjointCompleteAndRepeatable) {
  const DividedSamples parts = random_part(1003, 0.1, 5);
  expect_complete(parts, 1003);
  const Numbers held_out = numbers_of(parts.held_out);
  EXPECT_EQ(held_out.size(), 100U);
  EXPECT_EQ(numbers_of(random_part(1003, 0.1, 5).held_out), held_out);
  EXPECT_NE(numbers_of(random_part(1003, 0.1, 6).held_out), held_out);
  EXPECT_GT(held_out.back(), 900);  // drawn from the whole range, not taken from its beginning
  EXPECT_LT(held_out.front(), 100);
}

// A checkpoint would otherwise be tested on samples that it has been trained on. The numbers are of the first
// version.
TEST(Division, DividesAsEveryVersionBefore) {
  EXPECT_EQ(numbers_of(random_part(1003, 0.01, 5).held_out),
            (Numbers{155, 170, 434, 511, 544, 612, 768, 928, 946, 968}));
}

TEST(Division, DividesMoreSamplesThanAnArrayShouldHold) {
  constexpr int64_t kMany = (int64_t{1} << 24) + 1000;
  const DividedSamples parts = random_part(kMany, 0.001, 5);
  EXPECT_EQ(parts.held_out.count(), 16778);
  EXPECT_EQ(parts.train.count(), kMany - 16778);
  EXPECT_LT(parts.held_out[0], 100'000);
  EXPECT_GT(parts.held_out[16777], 16'600'000);
}

TEST(Division, RejectsEmptyParts) {
  for (const double fraction : {0.0, 1.0, -0.5, 0.01, 0.99, std::nan("")})
    expect_error([&] { random_part(10, fraction, 1); }, {"10 samples"});
  for (const HeldOutShare& share :
       {HeldOutShare{.folds = 1}, {.folds = 11, .fold = 1}, {.folds = 5, .fold = 0}, {.folds = 5, .fold = 6}})
    expect_error([&] { divide_samples(10, SplitBy::random, {}, share, 1); }, {"10 samples", "no fold"});
}

TEST(Division, FoldsAreAllSamplesOnce) {
  for (const SplitBy by : {SplitBy::random, SplitBy::stratified, SplitBy::group}) {
    const SplitKeys keys = by == SplitBy::group ? groups() : classes();
    Numbers together;
    for (const DividedSamples& fold : folds_of(by, keys, 4)) {
      expect_complete(fold);
      const Numbers held_out = numbers_of(fold.held_out);
      together.insert(together.end(), held_out.begin(), held_out.end());
    }
    std::ranges::sort(together);
    EXPECT_EQ(std::ranges::adjacent_find(together), together.end());
    EXPECT_EQ(std::ssize(together), kSize);
  }
}

// The counts are scikit-learn's (1.9.1): KFold(5), StratifiedKFold(5), train_test_split(stratify=…).
TEST(Division, SizesAreThoseOfScikitLearn) {
  Numbers sizes;
  for (const DividedSamples& fold : folds_of(SplitBy::random, {}, 5)) sizes.push_back(fold.held_out.count());
  EXPECT_EQ(sizes, (Numbers{21, 21, 21, 20, 20}));
  std::vector<std::array<int64_t, 3>> counts;
  for (const DividedSamples& fold : folds_of(SplitBy::stratified, classes(), 5))
    counts.push_back(count_classes(fold.held_out));
  EXPECT_EQ(counts, (std::vector<std::array<int64_t, 3>>{
                        {13, 5, 3}, {12, 6, 3}, {12, 6, 3}, {12, 6, 2}, {12, 6, 2}}));
  const double fraction = 21.0 / kSize;
  const DividedSamples part =
      divide_samples(kSize, SplitBy::stratified, classes(), {.fraction = fraction}, 1);
  EXPECT_EQ(count_classes(part.held_out), (std::array<int64_t, 3>{12, 6, 3}));
  expect_complete(part);
}

// GroupKFold(4) of scikit-learn has folds of 31, 24, 24 and 24 samples.
TEST(Division, AGroupIsOnOneSide) {
  Numbers sizes;
  for (const DividedSamples& fold : folds_of(SplitBy::group, groups(), 4)) {
    sizes.push_back(fold.held_out.count());
    for (const int64_t group : groups_in(fold.held_out)) EXPECT_FALSE(groups_in(fold.train).contains(group));
  }
  std::ranges::sort(sizes);
  EXPECT_EQ(sizes, (Numbers{24, 24, 24, 31}));
  for (const double fraction : {0.01, 0.2, 0.5, 0.98}) {
    const DividedSamples part = divide_samples(kSize, SplitBy::group, groups(), {.fraction = fraction}, 3);
    expect_complete(part);
    for (const int64_t group : groups_in(part.held_out)) EXPECT_FALSE(groups_in(part.train).contains(group));
    EXPECT_NEAR(static_cast<double>(part.held_out.count()), fraction * kSize, 12) << fraction;
  }
  expect_error([] { divide_samples(3, SplitBy::group, {7, 7, 7}, {.fraction = 0.3}, 1); }, {"1 group", "2"});
  expect_error([] { folds_of(SplitBy::group, groups(), 10); }, {"9 groups", "10"});
}

// TimeSeriesSplit(4) of scikit-learn trains on 0 … 22, 42, 62, 82, and tests on the 20 samples behind.
TEST(Division, ByTimeNothingLaterIsTrainedOn) {
  SplitKeys times(kSize);  // mixed; sample i is of time 17 i mod 103
  for (int64_t i = 0; i < kSize; ++i) times[static_cast<size_t>(i)] = i * 17 % kSize;
  const auto times_in = [&](const Selection& selection) {
    Numbers found;
    for (const int64_t sample : numbers_of(selection)) found.push_back(times.at(sample));
    std::ranges::sort(found);
    return found;
  };
  int64_t begin = 23;
  for (const DividedSamples& fold : folds_of(SplitBy::time, times, 4)) {
    EXPECT_EQ(times_in(fold.train).back(), begin - 1);
    EXPECT_EQ(times_in(fold.train).size(), static_cast<size_t>(begin));
    EXPECT_EQ(times_in(fold.held_out).front(), begin);
    EXPECT_EQ(times_in(fold.held_out).back(), begin + 19);
    EXPECT_EQ(fold.held_out.count(), 20);
    begin += 20;
  }
  const DividedSamples part = divide_samples(kSize, SplitBy::time, times, {.fraction = 0.1}, 1);
  expect_complete(part);
  EXPECT_EQ(times_in(part.held_out).front(), 93);
}

TEST(Division, EqualTimesAreOnOneSide) {
  const SplitKeys times = {1, 1, 2, 2, 2, 2, 2, 3, 4, 4};
  const DividedSamples part = divide_samples(10, SplitBy::time, times, {.fraction = 0.5}, 1);
  EXPECT_EQ(numbers_of(part.held_out), (Numbers{7, 8, 9}));
  expect_error(
      [] {
        divide_samples(3, SplitBy::time, {5, 5, 5}, {.fraction = 0.3}, 1);
      },
      {"1 different times"});
}

TEST(Division, SplitsHaveNames) {
  EXPECT_EQ(split_named("stratified"), SplitBy::stratified);
  expect_error([] { split_named("luck"); }, {"luck", "random, stratified, group, time or column"});
}

}  // namespace
}  // namespace telar
