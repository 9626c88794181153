#include "telar/graph/graph.h"

#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/graph/backward_part.h"
#include "telar/graph/buffer_text.h"
#include "telar/graph/ops/accumulate.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/conv2d.h"
#include "telar/graph/ops/dropout.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/graph/ops/stage.h"
#include "telar/graph/remove_unused.h"
#include "telar/graph/training_step.h"

namespace telar {
namespace {

Graph small_network(int64_t batch) {
  GraphBuilder builder;
  ValueId x = builder.input("x", {DType::f32, {batch, 1, 8, 8}}, true);
  {
    const ScopeGuard conv(builder, "conv");
    x = conv2d(builder, x, builder.parameter("conv.weight", {DType::f32, {2, 1, 3, 3}}), kNoValue,
               {.stride_h = 2, .stride_w = 2, .padding_h = 1, .padding_w = 1});
  }
  x = flatten(builder, relu(builder, x));
  const ScopeGuard fc(builder, "fc");
  const ValueId w = builder.parameter("fc.weight", {DType::f32, {5, 32}});
  const ValueId b = builder.parameter("fc.bias", {DType::f32, {5}});
  x = linear(builder, x, w, b);
  builder.output("y", x);
  return builder.build();
}

TEST(Graph, PrintsOneLineForEachValueAndNode) {
  EXPECT_EQ(small_network(3).str(), R"(input %0 x: f32 [3, 1, 8, 8]
parameter %1 conv.weight: f32 [2, 1, 3, 3]
parameter %5 fc.weight: f32 [5, 32]
parameter %6 fc.bias: f32 [5]
%2 = conv2d(%0, %1, -) {dilation=[1, 1], groups=1, padding=[1, 1], stride=[2, 2]} : f32 [3, 2, 4, 4]  # conv
%3 = relu(%2) : f32 [3, 2, 4, 4]
%4 = reshape(%3) {dims=[0, 32]} : f32 [3, 32]
%7 = linear(%4, %5, %6) : f32 [3, 5]  # fc
output y = %7
)");
}

TEST(BackwardPart, FollowsThePauseAlsoIfAnotherGraphHasTheGradients) {
  GraphBuilder builder;
  const ValueId y = relu(builder, builder.input("x", {DType::f32, {2, 3}}, true));
  pause(builder);
  builder.output("z", relu(builder, y));
  EXPECT_EQ(backward_begin(builder.build()), 2U);
}

TEST(Graph, WithBatchEqualsTheGraphBuiltForThatBatch) {
  EXPECT_EQ(small_network(3).with_batch(17).str(), small_network(17).str());
  EXPECT_EQ(small_network(3).with_batch(17).batch(), 17);
  EXPECT_EQ(small_network(3).with_batch(3).str(), small_network(3).str());
}

TEST(Graph, WithBatchKeepsInputsThatAreNotBatched) {
  GraphBuilder builder;
  builder.input("rate", {DType::f32, {1}}, false);
  const ValueId x = builder.input("x", {DType::f32, {4, 2}}, true);
  builder.output("y", relu(builder, x));
  const Graph graph = builder.build().with_batch(9);
  EXPECT_EQ(graph.value(graph.find(ValueKind::input, "rate")).type.shape, (Shape{1}));
  EXPECT_EQ(graph.value(graph.output("y")).type.shape, (Shape{9, 2}));
}

TEST(Graph, FindsValuesByNameAndKind) {
  const Graph graph = small_network(3);
  EXPECT_TRUE(graph.has(ValueKind::parameter, "fc.bias"));
  EXPECT_FALSE(graph.has(ValueKind::input, "fc.bias"));
  EXPECT_EQ(graph.of_kind(ValueKind::parameter).size(), 3U);
  EXPECT_THROW((void)graph.find(ValueKind::input, "fc.bias"), Error);
  EXPECT_THROW((void)graph.output("z"), Error);
  GraphBuilder empty;
  EXPECT_THROW((void)empty.build().batch(), Error);
}

TEST(Graph, UsesListsTheReadersOfEachValue) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2}}, true);
  const ValueId y = relu(builder, x);
  relu(builder, y);
  relu(builder, y);
  const auto uses = builder.graph().uses();
  EXPECT_EQ(uses[static_cast<size_t>(x)], std::vector<int>{0});
  EXPECT_EQ(uses[static_cast<size_t>(y)], (std::vector<int>{1, 2}));
}

TEST(GraphBuilder, DeclaringANameTwiceGivesOneValue) {
  GraphBuilder builder;
  const ValueId w = builder.parameter("w", {DType::f32, {2}});
  EXPECT_EQ(builder.parameter("w", {DType::f32, {2}}), w);
  const ValueId gradient = builder.gradient("w", {DType::f32, {2}});
  EXPECT_NE(gradient, w);  // a value of another kind is another value
  EXPECT_EQ(builder.gradient("w", {DType::f32, {2}}), gradient);
  const ValueId m = builder.optimizer_state("adam_m", "w", {DType::f32, {2}});
  EXPECT_NE(builder.optimizer_state("adam_v", "w", {DType::f32, {2}}), m);
  EXPECT_EQ(builder.graph().find(ValueKind::optimizer_state, "w", "adam_m"), m);
  EXPECT_FALSE(builder.graph().has(ValueKind::optimizer_state, "w", "momentum"));
  try {
    builder.parameter("w", {DType::f32, {3}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "'w' is used as f32 [2] and as f32 [3]; one name has one type");
  }
}

TEST(BufferText, IsReadAsWhatWasWritten) {
  const std::vector<Value> buffers = {
      {.name = "fc.bias", .kind = ValueKind::gradient},
      {.name = "gradient/fc.bias", .kind = ValueKind::gradient},
      {.name = "loss", .kind = ValueKind::metric},
      {.name = "fc.bias", .kind = ValueKind::optimizer_state, .slot = "adam_m"},
      {.name = "a/b", .kind = ValueKind::optimizer_state, .slot = "momentum"}};
  std::string texts;
  for (const Value& buffer : buffers) {
    const auto read = buffer_of_text(buffer.text(), buffer.type);
    ASSERT_TRUE(read.has_value()) << buffer.text();
    EXPECT_EQ(read->kind, buffer.kind);
    EXPECT_EQ(read->name, buffer.name);
    EXPECT_EQ(read->slot, buffer.slot);
    texts += buffer.text() + " ";
  }
  EXPECT_EQ(texts, "gradient/fc.bias gradient/gradient/fc.bias metric/loss adam_m/fc.bias momentum/a/b ");
}

TEST(GraphBuilder, ScopesNestAndEnd) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2}}, true);
  {
    const ScopeGuard outer(builder, "layer1");
    const ScopeGuard inner(builder, "0");
    relu(builder, x);
  }
  relu(builder, x);
  EXPECT_EQ(builder.graph().nodes()[0].scope, "layer1.0");
  EXPECT_EQ(builder.graph().nodes()[1].scope, "");
}

TEST(GraphBuilder, AShapeErrorNamesTheLayer) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3}}, true);
  const ScopeGuard scope(builder, "head");
  try {
    linear(builder, x, builder.parameter("head.weight", {DType::f32, {5, 4}}), kNoValue);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::user);
    EXPECT_STREQ(error.what(),
                 "layer 'head': linear: input [2, 3] does not fit weight [5, 4]; the input must be [N, 4]");
  }
}

TEST(GraphBuilder, StartedFromAGraphKeepsItsIds) {
  const Graph start = small_network(2);
  GraphBuilder builder(start);
  const ValueId y = start.output("y");
  accumulate(builder, builder.gradient("sum", start.value(y).type), y);
  const std::string text = builder.build().str();
  EXPECT_NE(text.find("%7 = linear(%4, %5, %6)"), std::string::npos);
  EXPECT_NE(text.find("accumulate(%8, %7)"), std::string::npos);
}

TEST(RemoveUnused, KeepsWhatAnOutputAnEffectOrAStreamNeeds) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {2, 3}}, true);
  const ValueId sample = builder.input("sample", {DType::i32, {2, 2}}, true);
  const ValueId random = builder.input("random", {DType::i32, {4}}, false);
  relu(builder, relu(builder, x));  // unused, with what it needs
  dropout(builder, x, 0.5, sample, random);
  accumulate(builder, builder.metric(kLoss), reduce_sum(builder, x, {}));
  builder.output("y", dropout(builder, sigmoid(builder, x), 0.5, sample, random));
  const Graph whole = builder.build();
  const Graph graph = remove_unused(whole);
  std::vector<std::string_view> names;
  for (const Node& node : graph.nodes()) names.push_back(node.op->name());
  EXPECT_EQ(names,
            (std::vector<std::string_view>{"dropout", "reduce_sum", "accumulate", "sigmoid", "dropout"}));
  EXPECT_EQ(graph.nodes().back().attributes, whole.nodes().back().attributes);
  EXPECT_EQ(graph.nodes().back().outputs[0], graph.output("y"));
}

TEST(Attributes, PrintAlphabeticallyAndCompareByContent) {
  const Attributes a{
      {"stride", std::vector<int64_t>{1, 2}}, {"alpha", 0.5}, {"on", true}, {"to", std::string("bf16")}};
  EXPECT_EQ(a.str(), "{alpha=0.5, on=true, stride=[1, 2], to=bf16}");
  EXPECT_EQ(Attributes{}.str(), "");
  EXPECT_EQ(a, a.with("alpha", 0.5));
  EXPECT_NE(a, a.with("alpha", 0.25));
  EXPECT_EQ(a.real("alpha"), 0.5);  // `with` does not change the original
}

TEST(Graph, RefusesATensorThatNoProcessCanAddress) {
  constexpr int64_t kLarge = int64_t{1} << 30;
  GraphBuilder builder;
  const auto parameter = [&](int64_t rows) {
    return builder.parameter("fc.weight", {DType::f32, {rows, kLarge}});
  };
  test::expect_error([&] { parameter(kLarge); }, {"'fc.weight'", "f32 [1073741824, 1073741824]"});
  const ValueId x = builder.input("x", {DType::f32, {kLarge, 1}}, true);
  const ValueId w = builder.parameter("w", {DType::f32, {kLarge, 1}});
  const ScopeGuard scope(builder, "fc");
  test::expect_error([&] { linear(builder, x, w, kNoValue); },
                     {"layer 'fc'", "f32 [1073741824, 1073741824]"});
}

}  // namespace
}  // namespace telar
