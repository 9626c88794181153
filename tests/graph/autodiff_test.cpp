#include "telar/graph/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "telar/core/error.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/arithmetic.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/loss.h"

namespace telar {
namespace {

/// The nodes of `whole` that are not in `forward`, one per line.
std::string backward_part(const Graph& forward, const Graph& whole) {
  std::string text;
  for (size_t n = forward.nodes().size(); n < whole.nodes().size(); ++n) {
    const Node& node = whole.nodes()[n];
    for (const ValueId id : node.outputs) text += "%" + std::to_string(id) + " ";
    text += std::string(node.op->name());
    for (const ValueId id : node.inputs) {
      const Value& value = id == kNoValue ? Value{} : whole.value(id);
      text += value.name.empty() ? " %" + std::to_string(id) : " " + value.text();
    }
    text += "\n";
  }
  return text;
}

struct Parts {
  GraphBuilder builder;
  ValueId x = builder.input("x", {DType::f32, {4, 3}}, true);
  ValueId target = builder.input("target", {DType::f32, {4, 3}}, true);
  ValueId w = builder.parameter("w", {DType::f32, {3, 3}});
};

TEST(Autodiff, ComputesOnlyNeededGradients) {
  Parts p;
  const ValueId h = relu(p.builder, linear(p.builder, p.x, p.w, kNoValue));  // %3 %4
  const ValueId loss = mean_squared_error(p.builder, h, p.target);           // %5
  const Graph forward = p.builder.build();
  // no gradient of x is computed, because nothing needs it
  EXPECT_EQ(backward_part(forward, differentiate(forward, loss, {p.w})), R"(%6 constant
%7 mean_squared_error_backward %4 target %6
%8 relu_backward %7 %4
%9 linear_backward_weights x %8
accumulate gradient/w %9
)");
}

TEST(Autodiff, AParameterUsedTwiceGetsTheSumOfBothGradientsOnce) {
  Parts p;
  const ValueId h = linear(p.builder, p.x, p.w, kNoValue);          // %3
  const ValueId y = linear(p.builder, h, p.w, kNoValue);            // %4
  const ValueId loss = mean_squared_error(p.builder, y, p.target);  // %5
  const Graph forward = p.builder.build();
  EXPECT_EQ(backward_part(forward, differentiate(forward, loss, {p.w})), R"(%6 constant
%7 mean_squared_error_backward %4 target %6
%8 linear_backward_weights %3 %7
%9 linear_backward_data %7 w
%10 linear_backward_weights x %9
%11 add %8 %10
accumulate gradient/w %11
)");
}

TEST(Autodiff, AValueUsedTwiceAddsItsGradients) {
  Parts p;
  const ValueId h = linear(p.builder, p.x, p.w, kNoValue);          // %3
  const ValueId y = add(p.builder, h, tanh(p.builder, h));          // %4 tanh, %5 add
  const ValueId loss = mean_squared_error(p.builder, y, p.target);  // %6
  const Graph forward = p.builder.build();
  EXPECT_EQ(backward_part(forward, differentiate(forward, loss, {p.w})), R"(%7 constant
%8 mean_squared_error_backward %5 target %7
%9 tanh_backward %8 %4
%10 add %8 %9
%11 linear_backward_weights x %10
accumulate gradient/w %11
)");
}

TEST(Autodiff, GradientsAreAccumulatedAsSoonAsTheyAreComplete) {
  Parts p;
  const ValueId v = p.builder.parameter("v", {DType::f32, {3, 3}});
  const ValueId h = linear(p.builder, p.x, p.w, kNoValue);
  const ValueId loss = mean_squared_error(p.builder, linear(p.builder, h, v, kNoValue), p.target);
  const Graph graph = differentiate(p.builder.build(), loss, {p.w, v});
  std::vector<std::string> order;
  for (const Node& node : graph.nodes()) {
    order.emplace_back(node.op->has_effect() ? graph.value(node.inputs[0]).text()
                                             : std::string(node.op->name()));
  }
  const auto at = [&](const std::string& name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  EXPECT_LT(at("gradient/v"), at("gradient/w"));
  EXPECT_EQ(order.back(), "gradient/w");
}

TEST(Autodiff, TheGradientOfARequestedInputIsAnOutput) {
  Parts p;
  const ValueId loss = mean_squared_error(p.builder, linear(p.builder, p.x, p.w, kNoValue), p.target);
  const Graph graph = differentiate(p.builder.build(), loss, {p.x});
  EXPECT_EQ(graph.value(graph.output("gradient/x")).type, (TensorType{DType::f32, {4, 3}}));
  EXPECT_FALSE(graph.has(ValueKind::gradient, "w"));
}

TEST(Autodiff, ABroadcastOperandGetsTheSumOverItsAxes) {
  Parts p;
  const ValueId b = p.builder.parameter("b", {DType::f32, {3}});
  const ValueId loss = mean_squared_error(p.builder, add(p.builder, p.x, b), p.target);
  const Graph graph = differentiate(p.builder.build(), loss, {b});
  EXPECT_EQ(graph.value(graph.find(ValueKind::gradient, "b")).type.shape, (Shape{3}));
  EXPECT_EQ(graph.nodes()[graph.nodes().size() - 2].op->name(), "sum_to");
}

TEST(Autodiff, BackwardNodesBelongToTheLayerOfTheirForwardNode) {
  Parts p;
  ValueId h = kNoValue;
  {
    const ScopeGuard scope(p.builder, "fc");
    h = linear(p.builder, p.x, p.w, kNoValue);
  }
  const ValueId loss = mean_squared_error(p.builder, relu(p.builder, h), p.target);
  const Graph graph = differentiate(p.builder.build(), loss, {p.w});
  for (const Node& node : graph.nodes()) {
    const bool of_layer = node.op->name().starts_with("linear") || node.op->has_effect();
    EXPECT_EQ(node.scope == "fc", of_layer) << node.op->name();
  }
}

TEST(Autodiff, RefusesUnusedParameters) {
  Parts p;
  const ValueId unused = p.builder.parameter("unused", {DType::f32, {3}});
  const ValueId loss = mean_squared_error(p.builder, linear(p.builder, p.x, p.w, kNoValue), p.target);
  const Graph forward = p.builder.build();
  const auto complaint = [&](ValueId of, const std::vector<ValueId>& wanted) -> std::string {
    try {
      differentiate(forward, of, wanted);
    } catch (const Error& error) {
      return error.what();
    }
    return "no complaint";
  };
  EXPECT_EQ(complaint(loss, {p.w, unused}), "parameter 'unused' is used by no layer");
  EXPECT_EQ(complaint(loss, {unused}), "the loss depends on no trained parameter");
}

TEST(Autodiff, RefusesAParameterThatDoesNotAffectTheLoss) {
  Parts p;
  const ValueId side = p.builder.parameter("side", {DType::f32, {3, 3}});
  linear(p.builder, p.x, side, kNoValue);  // this value is not used
  const ValueId loss = mean_squared_error(p.builder, linear(p.builder, p.x, p.w, kNoValue), p.target);
  try {
    differentiate(p.builder.build(), loss, {p.w, side});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "'side' does not influence the loss");
  }
}

TEST(Autodiff, RefusesAnOperationWithoutGradientOnTheWay) {
  GraphBuilder builder;
  const ValueId w = builder.parameter("w", {DType::f32, {5, 3}});
  const ValueId x = builder.input("x", {DType::f32, {4, 3}}, true);
  const ValueId label = builder.input("label", {DType::i32, {4}}, true);
  const ValueId hits = top_k_correct(builder, linear(builder, x, w, kNoValue), label, 1);
  try {
    differentiate(builder.build(), hits, {w});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'top_k_correct' has no gradient"), std::string::npos)
        << error.what();
  }
}

TEST(Autodiff, IgnoresMetricsBesidesTheLoss) {
  GraphBuilder builder;
  const ValueId w = builder.parameter("w", {DType::f32, {5, 3}});
  const ValueId x = builder.input("x", {DType::f32, {4, 3}}, true);
  const ValueId label = builder.input("label", {DType::i32, {4}}, true);
  const ValueId logits = linear(builder, x, w, kNoValue);
  const ValueId loss = cross_entropy(builder, logits, label, 0);
  accumulate(builder, builder.metric("accuracy"), top_k_correct(builder, logits, label, 1));
  const Graph graph = differentiate(builder.build(), loss, {w});
  int accumulates = 0;
  for (const Node& node : graph.nodes()) accumulates += node.op->name() == "accumulate" ? 1 : 0;
  EXPECT_EQ(accumulates, 2);
}

}  // namespace
}  // namespace telar
