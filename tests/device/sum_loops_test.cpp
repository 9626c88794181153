#include "telar/device/cpu/sum_loops.h"

#include <gtest/gtest.h>

#include <vector>

#include "telar/core/bf16.h"

namespace telar::cpu {
namespace {

/// Small integers, which bf16 and sums of f32 have exactly.
float element(int64_t row, int64_t column) { return static_cast<float>((row * 7 + column * 3) % 19 - 9); }

TEST(SumOfColumns, IsThatOfTheElementsOfF32AndOfBf16) {
  constexpr int64_t kRows = 301;
  constexpr int64_t kStep = 600;
  for (const int64_t columns : {1, 37, 256, 520}) {
    std::vector<float> x(kRows * kStep, 1e6F);
    std::vector<uint16_t> x16(x.size(), to_bf16(1e6F));
    std::vector<float> expected(static_cast<size_t>(columns), 2);
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        x[static_cast<size_t>(row * kStep + column)] = element(row, column);
        x16[static_cast<size_t>(row * kStep + column)] = to_bf16(element(row, column));
        expected[static_cast<size_t>(column)] += element(row, column);
      }
    std::vector<float> y(expected.size(), 2);
    add_columns(x.data(), {kRows, columns, kStep}, y.data());
    EXPECT_EQ(y, expected);
    y.assign(expected.size(), 2);
    add_columns(x16.data(), {kRows, columns, kStep}, y.data());
    EXPECT_EQ(y, expected);
  }
}

}  // namespace
}  // namespace telar::cpu
