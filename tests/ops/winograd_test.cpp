#include "telar/graph/winograd.h"

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "ops/run_graph.h"
#include "telar/graph/autodiff.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/reduce.h"

namespace telar::test {
namespace {

struct Sizes {
  int64_t batch, channels, filters, height, width;
  int64_t stride = 1;
};

struct ConvolutionResults {
  std::vector<float> y, dx, dw;
};

bool winograd_exists() {
  return DNNL_VERSION_MAJOR < 3 && dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
}

/// Runs a 3×3 convolution and computes the gradients of Σ y · weights.
ConvolutionResults run(const Sizes& s, bool winograd) {
  GraphBuilder builder;
  const Shape y_shape{s.batch, s.filters, (s.height - 1) / s.stride + 1, (s.width - 1) / s.stride + 1};
  const Shape x_shape{s.batch, s.channels, s.height, s.width};
  const Shape w_shape{s.filters, s.channels, 3, 3};
  const ValueId x = builder.input("x", {DType::f32, x_shape}, true);
  const ValueId weights = builder.input("weights", {DType::f32, y_shape}, true);
  const ValueId w = builder.parameter("w", {DType::f32, w_shape});
  const ValueId y = conv2d(builder, x, w, kNoValue, {s.stride, s.stride, 1, 1, 1, 1, 1});
  builder.output("y", y);
  builder.output("sum", reduce_sum(builder, mul(builder, y, weights), {0, 1, 2, 3}));
  Graph graph = builder.build();
  if (winograd) graph = allow_winograd(graph);
  graph = differentiate(graph, graph.output("sum"),
                        {graph.find(ValueKind::input, "x"), graph.find(ValueKind::parameter, "w")});
  GraphRun run(graph);
  run.set_input("x", numbers(x_shape.elements(), 1));
  run.set_input("weights", numbers(y_shape.elements(), 2));
  run.set_parameter("w", numbers(w_shape.elements(), 3));
  run.run();
  return {run.output("y"), run.output("gradient/x"), run.gradient("w")};
}

class Winograd : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override {
    if (!winograd_exists()) GTEST_SKIP() << "no AVX-512, or oneDNN 3: there is no Winograd";
  }
};

TEST_P(Winograd, EqualsTheDirectConvolutionExceptForRounding) {
  const ConvolutionResults winograd = run(GetParam(), true);
  const ConvolutionResults direct = run(GetParam(), false);
  EXPECT_LT(relative_error(winograd.y, direct.y), 3e-6);
  EXPECT_LT(relative_error(winograd.dx, direct.dx), 3e-6);
  EXPECT_LT(relative_error(winograd.dw, direct.dw), 3e-6);
  EXPECT_NE(winograd.y, direct.y);
  EXPECT_NE(winograd.dw, direct.dw);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Winograd,
                         testing::Values(Sizes{8, 32, 16, 16, 16}, Sizes{32, 64, 64, 8, 8},
                                         Sizes{9, 16, 48, 7, 13}, Sizes{40, 128, 32, 4, 4}));

TEST(WinogradRule, OtherConvolutionsAreComputedDirectly) {
  if (!winograd_exists()) GTEST_SKIP() << "no AVX-512, or oneDNN 3: there is no Winograd";
  for (const Sizes& sizes : {Sizes{8, 32, 16, 16, 16, 2}, Sizes{1, 64, 64, 8, 8}, Sizes{40, 32, 32, 2, 2},
                             Sizes{8, 3, 16, 16, 16}}) {
    EXPECT_EQ(run(sizes, true).y, run(sizes, false).y);
  }
}

}  // namespace
}  // namespace telar::test
