#include <gtest/gtest.h>

#include <numeric>

#include "support/sentences.h"
#include "telar/graph/forward_part.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/split_choice.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

Graph forward_graph(const std::string& model, const Shape& sample, int64_t batch) {
  return forward_of(make_training_step(make_model(model, {}, sample, 1000), {.batch = batch}));
}

// Exchanging the parts of the first layer's output costs less than the whole input of the last.
TEST(Splits, AlexNetDividesItsDenseLayersAsIsCheapest) {
  const LayerSplits chosen = choose_splits(forward_graph("alexnet", {3, 224, 224}, 32), 32, 2, {});
  const LayerSplits expected{{"classifier.1.weight", LayerSplit::columns},
                             {"classifier.4.weight", LayerSplit::columns},
                             {"classifier.6.weight", LayerSplit::rows}};
  EXPECT_EQ(chosen, expected);
}

TEST(Splits, ALargeBatchIsWorthLessThanWeights) {
  const Graph forward = forward_graph("alexnet", {3, 224, 224}, 32);
  test::expect_error([&] { choose_splits(forward, 1 << 20, 2, {}); },
                     {"no layer is worth dividing", "1048576"});
}

TEST(Splits, TheFirstRuleThatMatchesDecides) {
  const auto rules = split_rules({"classifier.4=whole", "classifier.*=rows"});
  const LayerSplits chosen = choose_splits(forward_graph("alexnet", {3, 224, 224}, 32), 32, 2, rules);
  EXPECT_FALSE(chosen.contains("classifier.4.weight"));
  EXPECT_EQ(chosen.at("classifier.1.weight"), LayerSplit::rows);
  EXPECT_EQ(chosen.at("classifier.6.weight"), LayerSplit::rows);
}

// 8 samples of 7 tokens: 56 vectors of 32 values pass instead of the gradient of the table.
TEST(Splits, AnEmbeddingIsDividedByRowsIfItsTableIsLarger) {
  const auto chosen_for = [](int64_t vocabulary, const std::vector<SplitRule>& rules) {
    const Model model =
        make_model("lstm", {{"vocabulary", vocabulary}, {"embedding", int64_t{32}}}, {7}, 1000);
    return choose_splits(forward_of(make_training_step(model, {.batch = 8})), 8, 2, rules);
  };
  const std::string table = "embedding.weight";
  const LayerSplits large = chosen_for(100, {});
  ASSERT_TRUE(large.contains(table));
  EXPECT_EQ(large.at(table), LayerSplit::rows);
  EXPECT_FALSE(chosen_for(50, {}).contains(table));
  EXPECT_EQ(chosen_for(50, split_rules({"embedding=rows"})).at(table), LayerSplit::rows);
  test::expect_error([&] { chosen_for(100, split_rules({"emb*=columns"})); },
                     {"strategy.split has 'emb*=columns' for layer 'embedding'", "only be divided by rows",
                      "\"embedding=rows\""});
}

TEST(Splits, DividedDropoutKeepsItsPositionsInTheSample) {
  const DividedGraph second =
      divide_layers(forward_graph("alexnet", {3, 224, 224}, 4),
                    {{"classifier.1.weight", LayerSplit::columns}, {"classifier.4.weight", LayerSplit::rows}},
                    {"model", 1, 2});
  std::vector<int64_t> begins;
  for (const Node& node : second.graph.nodes())
    if (node.op->name() == "dropout" && node.attributes.has("first"))
      begins.push_back(node.attributes.integer("first"));
  EXPECT_EQ(begins, (std::vector<int64_t>{2048}));
}

TEST(Pieces, AreCutAlongAnyAxis) {
  std::vector<float> whole(2 * 3 * 4);
  std::iota(whole.begin(), whole.end(), 0.0F);
  const Piece columns{"w", {2, 3, 4}, 1, 3, 1};
  EXPECT_EQ(columns.name(), "w[:, 1:3]");
  EXPECT_EQ(columns.piece_shape(), (Shape{2, 2, 4}));
  std::vector<float> part(16);
  columns.take_from(whole, part);
  EXPECT_EQ(part, (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23}));
  std::vector<float> back(24, -1);
  columns.put_into(back, part);
  for (size_t i = 0; i < back.size(); ++i) EXPECT_EQ(back[i], i % 12 < 4 ? -1 : whole[i]);
}

}  // namespace
}  // namespace telar
