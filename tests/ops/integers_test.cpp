#include <gtest/gtest.h>

#include <functional>

#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/concat.h"
#include "telar/graph/ops/embedding.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/stop_gradient.h"
#include "telar/graph/ops/transpose.h"

namespace telar::test {

namespace {

/// What a graph makes of tokens [2, 3], seen through a table whose row i is i.
std::vector<float> seen(const std::function<ValueId(GraphBuilder&, ValueId)>& move) {
  constexpr int64_t kRows = 12;
  GraphBuilder builder;
  const ValueId tokens = builder.input("tokens", {DType::i32, {2, 3}}, true);
  const ValueId moved = move(builder, tokens);
  builder.output("y", embedding(builder, moved, builder.parameter("table", {DType::f32, {kRows, 1}})));
  GraphRun run(builder.build());
  std::vector<float> table;
  for (int64_t i = 0; i < kRows; ++i) table.push_back(static_cast<float>(i));
  run.set_parameter("table", table);
  const std::vector<int32_t> values{1, 2, 3, 4, 5, 11};
  run.set_input("tokens", std::span<const int32_t>(values));
  run.run();
  return run.output("y");
}

}  // namespace

TEST(Integers, AreTransposed) {
  EXPECT_EQ(seen([](auto& b, ValueId t) {
              return transpose(b, t, {1, 0});
            }),
            (std::vector<float>{1, 4, 2, 5, 3, 11}));
}

TEST(Integers, AreSplitAndJoined) {
  EXPECT_EQ(seen([](auto& b, ValueId t) {
              return split(b, t, 1, {1, 2})[1];
            }),
            (std::vector<float>{2, 3, 5, 11}));
  EXPECT_EQ(seen([](auto& b, ValueId t) {
              const auto parts = split(b, t, 1, {1, 2});
              return concat(b, {parts[1], parts[0], parts[0]}, 1);
            }),
            (std::vector<float>{2, 3, 1, 1, 5, 11, 4, 4}));
}

TEST(StopGradient, IsTheValueWithoutAGradient) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 2}}, true);
  const ValueId product = mul(builder, x, stop_gradient(builder, x));
  builder.output("y", product);
  const ValueId loss = reduce_sum(builder, product, {});
  GraphRun run(differentiate(builder.build(), loss, {x}));
  const std::vector<float> values{1, -2, 3, 0.5F};
  run.set_input("x", values);
  run.run();
  EXPECT_EQ(run.output("gradient/x"), values);  // of x², half
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(run.output("y")[i], values[i] * values[i]);
}

}  // namespace telar::test
