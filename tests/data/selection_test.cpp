#include "telar/data/selection.h"

#include <gtest/gtest.h>

#include <vector>

#include "data/support.h"

namespace telar::test {
namespace {

std::vector<int64_t> numbers_of(const Selection& selection) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < selection.count(); ++i) numbers.push_back(selection[i]);
  return numbers;
}

TEST(Selection, HasItsNumbersInAscendingOrderAndTheComplementAllOthers) {
  for (const int64_t size : {1, 63, 64, 65, 511, 512, 513, 5000}) {
    for (const int64_t every : {1, 2, 7, 700}) {
      std::vector<int64_t> chosen;
      std::vector<int64_t> others;
      for (int64_t i = 0; i < size; ++i) (i % every == every - 1 ? chosen : others).push_back(i);
      const Selection selection(size, std::vector<int64_t>(chosen.rbegin(), chosen.rend()));
      EXPECT_EQ(numbers_of(selection), chosen) << size << " every " << every;
      EXPECT_EQ(numbers_of(selection.complement()), others) << size << " every " << every;
      EXPECT_EQ(numbers_of(selection.complement().complement()), chosen);
    }
  }
}

TEST(Selection, FindsNumbersAfterLongGaps) {
  const std::vector<int64_t> chosen{0, 70'000, 70'001, 999'999};
  EXPECT_EQ(numbers_of(Selection(1'000'000, chosen)), chosen);
  EXPECT_EQ(Selection(1'000'000, chosen).complement()[69'999], 70'002);
}

TEST(Selection, RejectsNumbersThatDoNotExist) {
  expect_error([] { Selection(10, std::vector<int64_t>{3, 10}); }, {"no sample 10", "10"});
  expect_error([] { Selection(10, std::vector<int64_t>{-1}); }, {"no sample -1"});
}

}  // namespace
}  // namespace telar::test
