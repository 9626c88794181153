#include "telar/nn/layers.h"
#include "support/sentences.h"

#include <gtest/gtest.h>

#include "telar/core/error.h"

namespace telar {
namespace {

using test::sentence_of;

ValueId input(ModelBuilder& model, const Shape& shape) {
  return model.graph().input("x", {DType::f32, shape}, true);
}

template <typename Build>
std::string complaint(const Shape& shape, Build build) {
  ModelBuilder model(Mode::training);
  const ScopeGuard scope(model, "outer");
  const ValueId x = input(model, shape);
  return sentence_of([&] { build(model, x); });
}

TEST(Layers, LinearAppliesToTheLastAxisOfAnyRank) {
  ModelBuilder model(Mode::training);
  const ValueId y = linear(model, "fc", input(model, {2, 7, 5, 3}), 4);
  EXPECT_EQ(model.shape(y), (Shape{2, 7, 5, 4}));
  EXPECT_EQ(model.parameters()[0].shape, (Shape{4, 3}));
  EXPECT_EQ(model.graph().graph().with_batch(9).value(y).type.shape, (Shape{9, 7, 5, 4}));
}

TEST(Layers, ParameterNamesFollowTheScopes) {
  ModelBuilder model(Mode::training);
  const ScopeGuard outer(model, "encoder");
  const ValueId x = input(model, {2, 3, 8, 8});
  conv2d(model, "conv", x, {.channels = 6, .kernel = {3, 5}, .groups = 3, .bias = false});
  layer_norm(model, "norm", x);
  std::vector<std::string> names;
  for (const auto& p : model.parameters()) names.push_back(p.name + p.shape.str());
  EXPECT_EQ(names, (std::vector<std::string>{"encoder.conv.weight[6, 1, 3, 5]", "encoder.norm.weight[8]",
                                             "encoder.norm.bias[8]"}));
}

TEST(Layers, ASharedNameIsASharedParameter) {
  ModelBuilder model(Mode::training);
  const ValueId x = input(model, {2, 5});
  linear(model, "fc", linear(model, "fc", x, 5), 5);
  EXPECT_EQ(model.parameters().size(), 2U);
  EXPECT_THROW(linear(model, "fc", x, 6), Error);
}

TEST(Layers, DropoutIsTheIdentityInEvaluationAndAtRateZero) {
  ModelBuilder evaluation(Mode::evaluation);
  const ValueId x = input(evaluation, {2, 5});
  EXPECT_EQ(dropout(evaluation, "drop", x, 0.5), x);
  ModelBuilder training(Mode::training);
  const ValueId z = input(training, {2, 5});
  EXPECT_EQ(dropout(training, "drop", z, 0), z);
  EXPECT_NE(dropout(training, "drop", z, 0.5), z);
}

TEST(Layers, TwoDropoutsDropDifferently) {
  ModelBuilder model(Mode::training);
  ValueId x = input(model, {2, 5});
  x = dropout(model, "b", dropout(model, "a", x, 0.5), 0.5);
  const auto& nodes = model.graph().graph().nodes();
  EXPECT_NE(nodes[0].attributes.integer("stream"), nodes[1].attributes.integer("stream"));
}

TEST(Layers, RecurrentLayersStackAndGiveTheLastState) {
  ModelBuilder model(Mode::training);
  const ValueId x = input(model, {4, 9, 6});
  const RecurrentResult result = gru(model, "gru", x, {.hidden = 5, .layers = 3, .dropout = 0.1});
  EXPECT_EQ(model.shape(result.y), (Shape{4, 9, 5}));
  EXPECT_EQ(model.shape(result.hidden), (Shape{4, 5}));
  EXPECT_EQ(model.parameters().size(), 12U);
  EXPECT_EQ(model.parameters()[4].name, "gru.weight_ih_l1");
  EXPECT_EQ(model.parameters()[4].shape, (Shape{15, 5}));
  int drops = 0;
  for (const Node& node : model.graph().graph().nodes()) drops += node.op->name() == "dropout" ? 1 : 0;
  EXPECT_EQ(drops, 2);  // none after the last layer
}

TEST(Layers, AResidualBlockProjectsItsShortcutOnlyWhereTheShapeChanges) {
  ModelBuilder model(Mode::training);
  ValueId x = input(model, {2, 16, 8, 8});
  x = basic_block(model, "a", x, 16, 1);
  EXPECT_EQ(model.parameters().size(), 10U);
  x = basic_block(model, "b", x, 32, 2);
  EXPECT_EQ(model.shape(x), (Shape{2, 32, 4, 4}));
  EXPECT_EQ(model.parameters().back().name, "b.downsample.1.running_var");
  x = bottleneck_block(model, "c", x, 32, 1);
  EXPECT_EQ(model.shape(x), (Shape{2, 128, 4, 4}));
  EXPECT_EQ(model.parameters().back().name, "c.downsample.1.running_var");
}

TEST(Layers, ErrorsNameTheLayerAndTheShape) {
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("layer 'outer.it'"), std::string::npos) << text;
  };
  has(complaint({2, 5}, [](auto& m, ValueId x) { conv2d(m, "it", x, {.channels = 4}); }), "[2, 5]");
  has(complaint({2, 3, 8, 8}, [](auto& m, ValueId x) { conv2d(m, "it", x, {.channels = 0}); }), "channels");
  has(complaint({2, 3, 8, 8}, [](auto& m, ValueId x) { conv2d(m, "it", x, {.channels = 4, .stride = 0}); }),
      "stride");
  has(complaint({2, 3, 8, 8}, [](auto& m, ValueId x) { conv2d(m, "it", x, {.channels = 4, .groups = 3}); }),
      "groups");
  has(complaint({2, 3, 8, 8}, [](auto& m, ValueId x) { conv2d(m, "it", x, {.channels = 4, .kernel = 9}); }),
      "kernel");
  has(complaint({2, 3, 8, 8}, [](auto& m, ValueId x) { max_pool(m, "it", x, 9, 1); }), "kernel");
  has(complaint({2, 3, 8, 8}, [](auto& m, ValueId x) { average_pool(m, "it", x, 2, 0); }), "stride");
  has(complaint({2, 3}, [](auto& m, ValueId x) { global_average_pool(m, "it", x); }), "4 axes");
  has(complaint({2, 3, 4}, [](auto& m, ValueId x) { batch_norm(m, "it", x); }), "4 or 2 axes");
  has(complaint({2, 3}, [](auto& m, ValueId x) { batch_norm(m, "it", x, {.momentum = 2}); }), "momentum");
  has(complaint({2, 3}, [](auto& m, ValueId x) { layer_norm(m, "it", x, 0); }), "epsilon");
  has(complaint({2, 3}, [](auto& m, ValueId x) { linear(m, "it", x, 0); }), "features");
  has(complaint({2, 3}, [](auto& m, ValueId x) { dropout(m, "it", x, 1); }), "below 1");
  has(complaint({2, 3}, [](auto& m, ValueId x) { lstm(m, "it", x, {}); }), "3 axes");
  has(complaint({2, 3, 4}, [](auto& m, ValueId x) { gru(m, "it", x, {.hidden = 0}); }), "hidden");
  has(complaint({2, 3}, [](auto& m, ValueId x) { embedding(m, "it", x, 0, 4); }), "tokens");
}

TEST(Layers, ARunningStatisticBelongsToOneLayer) {
  ModelBuilder model(Mode::training);
  const ValueId x = input(model, {2, 5});
  batch_norm(model, "bn", x);
  EXPECT_THROW(batch_norm(model, "bn", x), Error);
}

}  // namespace
}  // namespace telar
