#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "telar/bench/graph_run.h"
#include "telar/device/cpu/processor_support.h"
#include "telar/device/device.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/convert.h"
#include "telar/graph/ops/matmul.h"
#include "telar/graph/ops/reduce.h"

/// Graphs to compute on a GPU and compare with the CPU.
namespace telar::test {

/// A graph with the output "y", and its reference: the same graph with everything but its inputs in f32.
struct GpuCase {
  std::string name;
  Graph graph;
  Graph right;
  double tolerance;  ///< for each value, relative to the largest
};

template <typename Build>
GpuCase gpu_case(const std::string& name, DType dtype, const Build& build) {
  constexpr double kF32 = 1e-5;
  constexpr double kBf16 = 2e-2;
  GraphBuilder builder;
  builder.output("y", build(builder, [&](const std::string& input, const Shape& shape) {
                   return builder.input(input, {dtype, shape}, false);
                 }));
  GraphBuilder right;
  right.output("y", build(right, [&](const std::string& input, const Shape& shape) {
                 const ValueId value = right.input(input, {dtype, shape}, false);
                 return dtype == DType::f32 ? value : convert(right, value, DType::f32);
               }));
  return {name + (dtype == DType::bf16 ? " bf16" : " f32"), builder.build(), right.build(),
          dtype == DType::bf16 ? kBf16 : kF32};
}

/// Matrix products and convolutions of several forms, full sums, and conversions, in f32 and bf16.
inline std::vector<GpuCase> gpu_cases() {
  std::vector<GpuCase> cases;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto product = [&](const std::string& name, const Shape& a, bool ta, const Shape& b, bool tb) {
      cases.push_back(gpu_case(name, dtype, [=](GraphBuilder& builder, const auto& input) {
        return matmul(builder, input("a", a), input("b", b), ta, tb);
      }));
    };
    product("square", {64, 64}, false, {64, 64}, false);
    product("oblong", {33, 70}, false, {70, 21}, false);
    product("a transposed", {70, 33}, true, {70, 21}, false);
    product("b transposed", {33, 70}, false, {21, 70}, true);
    product("both transposed", {70, 33}, true, {21, 70}, true);
    product("batch", {3, 5, 17, 40}, false, {3, 5, 40, 8}, false);
    product("batch, b transposed", {4, 17, 40}, false, {4, 8, 40}, true);
    const auto convolution = [&](const std::string& name, const Shape& x, const Shape& w,
                                 const Conv2dOptions& options) {
      cases.push_back(gpu_case(name, dtype, [=](GraphBuilder& builder, const auto& input) {
        return conv2d(builder, input("x", x), input("w", w), kNoValue, options);
      }));
    };
    convolution("convolution", {2, 3, 13, 11}, {8, 3, 4, 5}, {});
    convolution("padding, stride", {2, 8, 13, 11}, {16, 8, 3, 3},
                {.stride_h = 2, .stride_w = 1, .padding_h = 1, .padding_w = 2});
    convolution("dilation", {2, 8, 13, 11}, {16, 8, 3, 3}, {.dilation_h = 2, .dilation_w = 3});
    cases.push_back(gpu_case("sum", dtype, [](GraphBuilder& builder, const auto& input) {
      return reduce_sum(builder, input("x", {70, 300}), {});
    }));
    cases.push_back(gpu_case("convolution and sum", dtype, [](GraphBuilder& builder, const auto& input) {
      const ValueId x =
          input("x", {4, 3, 8, 8});  // convolved with itself: the sum contains squares, which do not cancel
      return reduce_sum(builder, conv2d(builder, x, x, kNoValue, {}), {});
    }));
    cases.push_back(gpu_case("there and back", dtype, [](GraphBuilder& builder, const auto& input) {
      const ValueId x = input("x", {7, 300});
      const DType own = builder.type(x).dtype;
      return convert(builder, convert(builder, x, own == DType::f32 ? DType::bf16 : DType::f32), own);
    }));
  }
  return cases;
}

/// Compares a case on a device with its reference on the CPU. The largest difference, relative to the largest
/// value, must be within the case's tolerance.
inline void expect_as_on_processors(const GpuCase& given, std::unique_ptr<Device> device) {
  SCOPED_TRACE(given.name);
  const auto& values = given.right.values();
  const bool in_bf16 =
      std::any_of(values.begin(), values.end(), [](const Value& v) { return v.type.dtype == DType::bf16; });
  const std::string missing = in_bf16 ? cpu::bf16_missing() : "";
  if (!missing.empty()) GTEST_SKIP() << missing;
  bench::GraphRun run(given.graph, std::move(device));
  bench::GraphRun right(given.right, 1);
  run.run();
  right.run();
  const std::vector<float> found = run.output("y");
  const std::vector<float> wanted = right.output("y");
  ASSERT_EQ(found.size(), wanted.size());
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
    const double apart = std::abs(static_cast<double>(found[i]) - wanted[i]);
    difference = std::isfinite(found[i]) ? std::max(difference, apart) : HUGE_VAL;
  }
  EXPECT_LE(difference, given.tolerance * largest);
}

}  // namespace telar::test
