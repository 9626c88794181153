#include <gtest/gtest.h>

#include "telar/graph/autodiff.h"
#include "telar/graph/ops/activation.h"
#include "telar/graph/ops/linear.h"
#include "telar/graph/ops/reduce.h"
#include "telar/graph/ops/reshape.h"
#include "telar/strategy/split_choice.h"

namespace telar {
namespace {

/// A layer of the tokens of each sample, whose rows a product takes together: [N, 3, 4] as [3N, 4]. And one
/// of three rows that belong to no sample.
Graph of_tokens(int64_t batch) {
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::f32, {batch, 3, 4}}, true);
  const ValueId places = builder.input("places", {DType::f32, {3, 4}}, false);
  const ValueId w = builder.parameter("tokens.weight", {DType::f32, {6, 4}});
  const ValueId of_places = builder.parameter("places.weight", {DType::f32, {6, 4}});
  const ValueId rows = reshape(builder, reshape(builder, x, {-1, 12}), {-1, 4});
  const ValueId y = linear(builder, rows, w, kNoValue);
  const ValueId z = linear(builder, places, of_places, kNoValue);
  builder.output("y", reshape(builder, y, {-1, 3, 6}));
  builder.output("z", z);
  return builder.build();
}

TEST(RowsOfSamples, AreThoseThatGrowWithTheBatch) {
  const Graph graph = of_tokens(2);
  const std::vector<bool> found = rows_of_samples(graph);
  for (size_t i = 0; i < graph.values().size(); ++i) {
    const int64_t rows = graph.values()[i].type.shape[0];
    const Value& value = graph.values()[i];
    const bool expected =
        value.kind != ValueKind::parameter && (rows == 2 || rows == 6) && value.name != "places";
    EXPECT_EQ(found[i], expected) << value.type.str();
  }
}

TEST(RowsOfSamples, AreExchangedAsManyAsAMemberHas) {
  const SampleGroup group{"model", 1, 2};
  const LayerSplits all{{"tokens.weight", LayerSplit::columns}, {"places.weight", LayerSplit::columns}};
  const DividedGraph divided = divide_layers(of_tokens(2), all, group);
  ASSERT_EQ(divided.pieces.size(), 1U);  // not that of the places
  const Graph uneven = divided.graph.with_batch(5, {4, 5});
  for (const Node& node : uneven.nodes()) {
    if (!node.op->exchanges_samples()) continue;
    EXPECT_EQ(node.attributes.integers("rows"), (std::vector<int64_t>{12, 15})) << node.op->name();
  }
  EXPECT_EQ(uneven.value(uneven.output("y")).type.shape, (Shape{5, 3, 6}));
}

TEST(RowsOfSamples, ALayerWithoutThemIsNotChosen) {
  const LayerSplits chosen = choose_splits(of_tokens(2), 2, 2, split_rules({"tokens=columns"}));
  EXPECT_EQ(chosen, (LayerSplits{{"tokens.weight", LayerSplit::columns}}));
}

}  // namespace
}  // namespace telar
