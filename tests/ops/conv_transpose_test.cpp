#include <gtest/gtest.h>

#include "ops/run_graph.h"
#include "support/sentences.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/mixed_precision.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

struct TransposedCase {
  Shape x;  ///< [N, C, H, W]
  Shape w;  ///< [C, O / groups, KH, KW]
  ConvTranspose2dOptions options;
};

const std::vector<TransposedCase> kTransposed = {
    {{2, 3, 4, 5}, {3, 2, 2, 2}, {{.stride_h = 2, .stride_w = 2}}},
    {{2, 4, 3, 4}, {4, 5, 3, 3}, {{.stride_h = 2, .stride_w = 3, .padding_h = 1, .padding_w = 1}, 1, 2}},
    {{1, 4, 5, 5}, {4, 3, 3, 2}, {{.padding_h = 1, .dilation_h = 2, .groups = 2}}},
};

/// y and the gradients of Σ y · g by the definition, in f64.
struct Transposed {
  Shape shape;
  std::vector<double> y, dx, dw, db;
};

Transposed by_definition(const TransposedCase& c, const std::vector<float>& x, const std::vector<float>& w,
                         const std::vector<float>& b, const std::vector<float>& g, const Shape& shape) {
  const Conv2dOptions& o = c.options.window;
  Transposed r{shape, std::vector<double>(static_cast<size_t>(shape.elements())),
               std::vector<double>(x.size()), std::vector<double>(w.size()), std::vector<double>(b.size())};
  const auto at = [](const Shape& s, int64_t i, int64_t j, int64_t k, int64_t l) {
    return static_cast<size_t>(((i * s[1] + j) * s[2] + k) * s[3] + l);
  };
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t m = 0; m < shape[1]; ++m)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t j = 0; j < shape[3]; ++j) {
          r.y[at(shape, n, m, i, j)] += b[static_cast<size_t>(m)];
          r.db[static_cast<size_t>(m)] += g[at(shape, n, m, i, j)];
        }
  const int64_t inner = c.x[1] / o.groups;
  for (int64_t n = 0; n < c.x[0]; ++n)
    for (int64_t k = 0; k < c.x[1]; ++k)
      for (int64_t i = 0; i < c.x[2]; ++i)
        for (int64_t j = 0; j < c.x[3]; ++j)
          for (int64_t m = 0; m < c.w[1]; ++m)
            for (int64_t u = 0; u < c.w[2]; ++u)
              for (int64_t v = 0; v < c.w[3]; ++v) {
                const int64_t row = i * o.stride_h - o.padding_h + u * o.dilation_h;
                const int64_t column = j * o.stride_w - o.padding_w + v * o.dilation_w;
                if (row < 0 || row >= shape[2] || column < 0 || column >= shape[3]) continue;
                const size_t to = at(shape, n, k / inner * c.w[1] + m, row, column);
                const size_t from = at(c.x, n, k, i, j);
                const size_t weight = at(c.w, k, m, u, v);
                r.y[to] += static_cast<double>(x[from]) * w[weight];
                r.dx[from] += static_cast<double>(g[to]) * w[weight];
                r.dw[weight] += static_cast<double>(g[to]) * x[from];
              }
  return r;
}

std::vector<float> as_floats_of(const std::vector<double>& values) { return {values.begin(), values.end()}; }

void expect_definition(const TransposedCase& c, bool bf16, double tolerance) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, c.x}, true);
  const ValueId w = builder.parameter("w", {DType::f32, c.w});
  const int64_t channels = c.w[1] * c.options.window.groups;
  const ValueId b = builder.parameter("b", {DType::f32, {channels}});
  const ValueId y = conv_transpose2d(builder, x, w, b, c.options);
  const Shape shape = builder.type(y).shape;
  const ValueId g = builder.input("g", {DType::f32, shape}, true);
  builder.output("y", y);
  builder.output("loss", reduce_sum(builder, mul(builder, y, g), {}));
  Graph forward = builder.build();
  if (bf16) forward = mixed_precision(forward);
  const std::vector<ValueId> wanted{forward.find(ValueKind::input, "x"),
                                    forward.find(ValueKind::parameter, "w"),
                                    forward.find(ValueKind::parameter, "b")};
  GraphRun run(differentiate(forward, forward.output("loss"), wanted));
  const auto values = [](const Shape& of, uint64_t stream) { return numbers(of.elements(), stream); };
  const auto x_values = values(c.x, 1);
  const auto w_values = values(c.w, 2);
  const auto b_values = values({channels}, 3);
  const auto g_values = values(shape, 4);
  run.set_input("x", std::span<const float>(x_values));
  run.set_input("g", std::span<const float>(g_values));
  run.set_parameter("w", w_values);
  run.set_parameter("b", b_values);
  run.run();
  const Transposed right = by_definition(c, x_values, w_values, b_values, g_values, shape);
  EXPECT_LT(relative_error(run.output("y"), as_floats_of(right.y)), tolerance);
  EXPECT_LT(relative_error(run.output("gradient/x"), as_floats_of(right.dx)), tolerance);
  EXPECT_LT(relative_error(run.gradient("w"), as_floats_of(right.dw)), tolerance);
  EXPECT_LT(relative_error(run.gradient("b"), as_floats_of(right.db)), tolerance);
}

TEST(ConvTranspose, AndItsGradientsEqualTheDefinition) {
  for (const TransposedCase& transposed : kTransposed) expect_definition(transposed, false, 1e-6);
}

TEST(ConvTranspose, EqualsTheDefinitionInBf16) {
  if (const std::string missing = bf16_missing_here(); !missing.empty()) GTEST_SKIP() << missing;
  for (const TransposedCase& transposed : kTransposed) expect_definition(transposed, true, 2e-2);
}

TEST(ConvTranspose, RefusesWhatDoesNotFit) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3, 4, 4}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {3, 2, 2, 2}});
  const ValueId other = builder.parameter("other", {DType::f32, {2, 3, 2, 2}});
  expect_error([&] { conv_transpose2d(builder, x, other, kNoValue, {}); },
               {"does not fit weight f32 [2, 3, 2, 2]"});
  expect_error(
      [&] {
        conv_transpose2d(builder, x, w, kNoValue, {{}, 1, 0});
      },
      {"output padding 1 with stride 1"});
  expect_error([&] { conv_transpose2d(builder, x, w, kNoValue, {{.padding_h = 9}}); }, {"leaves nothing"});
}

}  // namespace
}  // namespace telar::test
