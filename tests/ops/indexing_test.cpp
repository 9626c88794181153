#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/gather.h"
#include "telar/graph/ops/order.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/whole_numbers.h"

namespace telar::test {

namespace {

constexpr float kBeyondAll = std::numeric_limits<float>::infinity();
const float kNotANumber = std::nanf("");

std::vector<float> ordered(const std::vector<float>& x, const Shape& shape, int64_t axis, int64_t count,
                           bool descending) {
  GraphBuilder builder;
  const ValueId places =
      order(builder, builder.input("x", {DType::f32, shape}, true), axis, count, descending);
  builder.output("y", to_numbers(builder, places));
  GraphRun run(builder.build());
  run.set_input("x", std::span<const float>(x));
  run.run();
  return run.output("y");
}

/// The numbers of an input "x" with this shape, and of indices, moved; and the gradient of x, when the loss is
/// the sum of squares.
struct Moved {
  std::vector<float> y;
  std::vector<float> gradient;
};

using Move = std::function<ValueId(GraphBuilder&, ValueId x, ValueId indices)>;

Moved moved(const Shape& shape, const std::vector<float>& x, const Shape& of_indices,
            const std::vector<int32_t>& indices, const Move& move) {
  GraphBuilder builder;
  const ValueId numbers = builder.input("x", {DType::f32, shape}, true);
  const ValueId y = move(builder, numbers, builder.input("indices", {DType::i32, of_indices}, true));
  builder.output("y", y);
  const ValueId loss = reduce_sum(builder, mul(builder, y, y), {});
  GraphRun run(differentiate(builder.build(), loss, {numbers}));
  run.set_input("x", std::span<const float>(x));
  run.set_input("indices", std::span<const int32_t>(indices));
  run.run();
  return {run.output("y"), run.output("gradient/x")};
}

}  // namespace

TEST(Order, IsThatOfPyTorchsStableSort) {
  const std::vector<float> x{3, 1, 3, -kBeyondAll, kNotANumber, 1};
  EXPECT_EQ(ordered(x, {1, 6}, 1, 6, false), (std::vector<float>{3, 1, 5, 0, 2, 4}));
  EXPECT_EQ(ordered(x, {1, 6}, 1, 6, true), (std::vector<float>{4, 0, 2, 1, 5, 3}));
  EXPECT_EQ(ordered(x, {1, 6}, 1, 3, true), (std::vector<float>{4, 0, 2}));
  EXPECT_EQ(ordered(x, {1, 6}, 1, 1, false), (std::vector<float>{3}));
  EXPECT_EQ(ordered({3, 1, 3}, {1, 3}, 1, 1, true), (std::vector<float>{0}));
}

TEST(Order, RunsAlongAnyAxis) {
  const std::vector<float> x{5, 1, 2, 3, 4, 0, /**/ 1, 2, 0, 5, 2, 2};
  EXPECT_EQ(ordered(x, {2, 3, 2}, 1, 2, false), (std::vector<float>{1, 2, 2, 0, /**/ 1, 0, 0, 2}));
}

TEST(Order, TellsHowManyPositionsThereAre) {
  expect_error(
      [] {
        ordered({1, 2}, {1, 2}, 1, 3, true);
      },
      {"order: 3 positions of axis 1 of [1, 2]; there are 2"});
}

TEST(Gather, TakesElementsByTheirPositions) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const Moved found = moved({2, 3}, x, {2, 2}, {2, 2, 0, 1},
                            [](GraphBuilder& b, ValueId v, ValueId i) { return gather(b, v, i, 1); });
  EXPECT_EQ(found.y, (std::vector<float>{3, 3, 4, 5}));
  EXPECT_EQ(found.gradient, (std::vector<float>{0, 0, 12, 8, 10, 0}));
}

TEST(Gather, TakesRowsByOneIndexEach) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  const Moved found = moved({2, 2, 2}, x, {2, 1}, {1, 0}, [](GraphBuilder& b, ValueId v, ValueId i) {
    return gather(b, v, reshape(b, i, {-1, 1, 1}), 1);
  });
  EXPECT_EQ(found.y, (std::vector<float>{3, 4, 5, 6}));
  EXPECT_EQ(found.gradient, (std::vector<float>{0, 0, 6, 8, 10, 12, 0, 0}));
}

TEST(Gather, SharesIndicesAmongTheFirstAxes) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  const Moved found = moved({2, 2, 2}, x, {2, 1}, {1, 0}, [](GraphBuilder& b, ValueId v, ValueId i) {
    return gather(b, v, reshape(b, i, {1, 2, 1}), 2);
  });
  EXPECT_EQ(found.y, (std::vector<float>{2, 3, 6, 7}));
  EXPECT_EQ(found.gradient, (std::vector<float>{0, 4, 6, 0, 0, 12, 14, 0}));
}

TEST(Gather, NamesAnIndexThatIsOutOfRange) {
  if (!tested_device()->in_host_memory())
    GTEST_SKIP()
        << "a GPU cannot throw while it computes: there the element is NaN (tests/cuda/loops_test.cpp)";
  for (const int32_t wrong : {3, -1}) {
    expect_error(
        [&] {
          moved({2, 3}, {1, 2, 3, 4, 5, 6}, {2, 2}, {2, 2, wrong, 1},
                [](GraphBuilder& b, ValueId v, ValueId i) { return gather(b, v, i, 1); });
        },
        {"gather: index " + std::to_string(wrong) + " at position 2; indices are 0 to 2"});
  }
}

TEST(Gather, NamesShapesThatDoNotFit) {
  const auto along = [](const Shape& shape) {
    return [shape] {
      GraphBuilder b;
      const ValueId x = b.input("x", {DType::f32, {2, 3, 4}}, true);
      gather(b, x, b.input("indices", {DType::i32, shape}, true), 1);
    };
  };
  expect_error(along({2, 5, 3}), {"gather: indices [2, 5, 3] along axis 1 of [2, 3, 4]"});
  expect_error(along({3, 5, 4}), {"gather: indices [3, 5, 4] along axis 1 of [2, 3, 4]"});
  expect_error(along({2, 5}), {"gather: indices [2, 5] along axis 1 of [2, 3, 4]"});
}

TEST(ScatterAdd, AddsWhatHasTheSamePosition) {
  const Moved found = moved({2, 3}, {1, 2, 3, 4, 5, 6}, {2, 3}, {1, 0, 1, 3, 3, 3},
                            [](GraphBuilder& b, ValueId v, ValueId i) { return scatter_add(b, i, v, 1, 4); });
  EXPECT_EQ(found.y, (std::vector<float>{2, 4, 0, 0, 0, 0, 0, 15}));
  EXPECT_EQ(found.gradient, (std::vector<float>{8, 4, 8, 30, 30, 30}));
}

TEST(WholeNumbers, AreRoundedAndBack) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {7}}, true);
  builder.output("y", to_numbers(builder, to_indices(builder, x)));
  GraphRun run(builder.build());
  const std::vector<float> values{2.4F, -1.6F, 16777215, 0, kNotANumber, 3e9F, -kBeyondAll};
  run.set_input("x", std::span<const float>(values));
  run.run();
  EXPECT_EQ(run.output("y"), (std::vector<float>{2, -2, 16777215, 0, -0x1p31F, -0x1p31F, -0x1p31F}));
}

}  // namespace telar::test
