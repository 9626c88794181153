#include "telar/core/number_set.h"

#include <gtest/gtest.h>

#include <set>

#include "telar/core/random.h"

namespace telar {
namespace {

TEST(NumberSet, BeginsAnywhere) {
  NumberSet numbers;
  numbers.add(1'000'000'000'002);
  numbers.add(1'000'000'000'000);
  EXPECT_FALSE(numbers.contains(1'000'000'000'001));
  EXPECT_FALSE(numbers.contains(1));
  numbers.add(1'000'000'000'001);
  EXPECT_TRUE(numbers.contains(1'000'000'000'002));
  EXPECT_FALSE(numbers.contains(1'000'000'000'003));
}

TEST(NumberSet, HasWhatWasAddedInAnyOrder) {
  RandomSequence random(5, 1);
  NumberSet numbers;
  std::set<int64_t> expected;
  EXPECT_FALSE(numbers.contains(1));
  while (expected.size() < 60) {
    const auto number = static_cast<int64_t>(random.below(70)) + 1;
    numbers.add(number);
    expected.insert(number);
    for (int64_t n = 1; n <= 75; ++n) ASSERT_EQ(numbers.contains(n), expected.contains(n)) << n;
  }
}

TEST(NumberSet, IsMadeOfItsRanges) {
  NumberSet numbers;
  for (const int64_t number : {3, 4, 9}) numbers.add(number);
  NumberSet copy;
  for (const auto& [first, last] : numbers.ranges()) EXPECT_TRUE(copy.append(first, last));
  EXPECT_EQ(copy.ranges(), numbers.ranges());
  EXPECT_FALSE(copy.append(10, 12)) << "without a gap";
  EXPECT_FALSE(copy.append(12, 11));
  EXPECT_EQ(copy.ranges(), numbers.ranges());
}

}  // namespace
}  // namespace telar
