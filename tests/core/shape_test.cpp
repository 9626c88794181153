#include "telar/core/shape.h"

#include <gtest/gtest.h>

#include "support/sentences.h"

namespace telar {
namespace {

using test::expect_error;

constexpr int64_t kLarge = int64_t{1} << 32;

TEST(Shape, CountsElements) {
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ((Shape{2, 3, 4}).elements_per_item(), 12);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ(Shape{}.elements_per_item(), 1);
  EXPECT_EQ((Shape{5, 0}).elements(), 0);
}

TEST(Shape, NamesTheExtentsOfAProductThatIsTooLarge) {
  expect_error([] { (Shape{kLarge, 3, kLarge}).elements(); }, {"4294967296 × 3 × 4294967296", "too large"});
  expect_error([] { (Shape{1, kLarge, kLarge}).elements_per_item(); }, {"4294967296 × 4294967296"});
  EXPECT_EQ((Shape{kLarge, kLarge / 4}).elements(), int64_t{1} << 62);
}

TEST(Products, AreNotHiddenByAFactorOfZero) {
  const std::vector<int64_t> factors = {kLarge, kLarge, 0};
  EXPECT_EQ(product_within_int64(factors), std::nullopt);
  expect_error([&] { product_of(factors); }, {"4294967296 × 4294967296 × 0"});
}

}  // namespace
}  // namespace telar
