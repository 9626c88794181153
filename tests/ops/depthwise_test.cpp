#include <gtest/gtest.h>

#include <cmath>

#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

struct Depthwise {
  Shape x;  ///< [N, C, H, W]
  Shape w;  ///< [C, 1, KH, KW]
  Conv2dOptions options;
};

Conv2dOptions window(int64_t stride, int64_t padding, int64_t dilation, int64_t groups) {
  return {.stride_h = stride,
          .stride_w = stride,
          .padding_h = padding,
          .padding_w = padding,
          .dilation_h = dilation,
          .dilation_w = dilation,
          .groups = groups};
}

/// Full and partial blocks of 16 channels; taps that never touch the image; images smaller than the kernel.
const std::vector<Depthwise> kDepthwise = {
    {{3, 16, 8, 7}, {16, 1, 5, 5}, window(1, 2, 1, 16)},
    {{2, 20, 9, 11}, {20, 1, 5, 5}, window(2, 2, 1, 20)},
    {{2, 35, 3, 3}, {35, 1, 5, 5}, window(1, 2, 1, 35)},
    {{2, 5, 12, 12}, {5, 1, 7, 5}, window(1, 3, 1, 5)},
    {{2, 18, 11, 10}, {18, 1, 5, 4}, window(1, 4, 2, 18)},
    {{2, 17, 2, 2}, {17, 1, 7, 7}, window(1, 3, 1, 17)},
    {{2, 24, 9, 9}, {24, 1, 5, 5}, window(3, 0, 1, 24)},
};

double hardswish_slope(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6; }

size_t at(const Shape& s, int64_t n, int64_t c, int64_t i, int64_t j) {
  return static_cast<size_t>(((n * s[1] + c) * s[2] + i) * s[3] + j);
}

/// Calls term(place of y, of x, of w) for each product of the convolution.
template <typename Term>
void for_each_term(const Depthwise& c, const Shape& shape, const Term& term) {
  const Conv2dOptions& o = c.options;
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t m = 0; m < shape[1]; ++m)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t j = 0; j < shape[3]; ++j)
          for (int64_t u = 0; u < c.w[2]; ++u)
            for (int64_t v = 0; v < c.w[3]; ++v) {
              const int64_t row = i * o.stride_h - o.padding_h + u * o.dilation_h;
              const int64_t column = j * o.stride_w - o.padding_w + v * o.dilation_w;
              if (row < 0 || row >= c.x[2] || column < 0 || column >= c.x[3]) continue;
              term(at(shape, n, m, i, j), at(c.x, n, m, row, column), at(c.w, m, 0, u, v));
            }
}

/// The gradients of Σ g · hardswish(y), y = conv2d(x, w) + b, equal those by the definition in f64.
void expect_definition(const Depthwise& c) {
  const int64_t channels = c.x[1];
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, c.x}, true);
  const ValueId w = builder.parameter("w", {DType::f32, c.w});
  const ValueId b = builder.parameter("b", {DType::f32, {channels}});
  const ValueId y = conv2d(builder, x, w, b, c.options);
  const Shape shape = builder.type(y).shape;
  const ValueId g = builder.input("g", {DType::f32, shape}, true);
  builder.output("loss", reduce_sum(builder, mul(builder, hardswish(builder, y), g), {}));
  const Graph forward = builder.build();
  GraphRun run(differentiate(forward, forward.output("loss"),
                             {forward.find(ValueKind::input, "x"), forward.find(ValueKind::parameter, "w"),
                              forward.find(ValueKind::parameter, "b")}));
  const auto x_values = numbers(c.x.elements(), 1);
  const auto w_values = numbers(c.w.elements(), 2);
  const auto b_values = numbers(channels, 3);
  const auto g_values = numbers(shape.elements(), 4);
  run.set_input("x", std::span<const float>(x_values));
  run.set_input("g", std::span<const float>(g_values));
  run.set_parameter("w", w_values);
  run.set_parameter("b", b_values);
  run.run();

  std::vector<double> before(g_values.size());
  for_each_term(c, shape, [&](size_t to, size_t from, size_t weight) {
    before[to] += static_cast<double>(x_values[from]) * w_values[weight];
  });
  std::vector<double> db(b_values.size());
  std::vector<double> dy(g_values.size());
  const auto image = static_cast<size_t>(shape[2] * shape[3]);
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t channel = i / image % b_values.size();
    dy[i] = g_values[i] * hardswish_slope(before[i] + b_values[channel]);
    db[channel] += dy[i];
  }
  std::vector<double> dx(x_values.size());
  std::vector<double> dw(w_values.size());
  for_each_term(c, shape, [&](size_t to, size_t from, size_t weight) {
    dx[from] += dy[to] * w_values[weight];
    dw[weight] += dy[to] * x_values[from];
  });
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_LT(relative_error(run.output("gradient/x"), floats(dx)), 2e-6);
  EXPECT_LT(relative_error(run.gradient("w"), floats(dw)), 2e-6);
  EXPECT_LT(relative_error(run.gradient("b"), floats(db)), 2e-6);
}

TEST(Depthwise, GradientsEqualTheDefinition) {
  for (size_t i = 0; i < kDepthwise.size(); ++i) {
    SCOPED_TRACE(i);
    expect_definition(kDepthwise[i]);
  }
}

}  // namespace
}  // namespace telar::test
