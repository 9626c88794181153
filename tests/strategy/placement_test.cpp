#include "telar/strategy/placement.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/sentences.h"
#include "telar/core/error.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"

namespace telar {
namespace {

std::vector<ParameterInfo> parameters_of(const std::vector<std::pair<std::string, Shape>>& shapes) {
  std::vector<ParameterInfo> parameters;
  for (const auto& [name, shape] : shapes) parameters.push_back({name, shape, true, {}});
  return parameters;
}

/// Fully connected layers created in a loop, as is usual: weight, bias, weight, bias …
std::vector<ParameterInfo> alternating() {
  std::vector<std::pair<std::string, Shape>> shapes;
  for (int layer = 0; layer < 4; ++layer) {
    shapes.emplace_back(fmt::format("fc{}.weight", layer), Shape{1000, 1000});
    shapes.emplace_back(fmt::format("fc{}.bias", layer), Shape{1000});
  }
  return parameters_of(shapes);
}

std::vector<ParameterInfo> resnet34() {
  const Model model = make_model("resnet34", {}, {3, 224, 224}, 1000);
  return make_training_step(model, {.batch = 1}).parameters;
}

std::vector<int64_t> bytes_of(const Placement& placement) {
  std::vector<int64_t> bytes;
  for (const auto& pieces : placement) bytes.push_back(placed_bytes(pieces));
  return bytes;
}

std::vector<std::string> names_of(const std::vector<Piece>& pieces) {
  std::vector<std::string> names;
  for (const Piece& piece : pieces) names.push_back(piece.name());
  return names;
}

TEST(Placement, RoundRobinPutsAllWeightsOnOneOfTwoServers) {
  const Placement placement = place_round_robin(alternating(), 2);
  EXPECT_EQ(bytes_of(placement), (std::vector<int64_t>{16'000'000, 16'000}));
  EXPECT_NEAR(imbalance(placement), 1.998, 1e-3);
}

TEST(Placement, GreedyBalancesWeightsAndBiasesThatAlternate) {
  const Placement placement = place_greedy(alternating(), 2);
  EXPECT_EQ(bytes_of(placement), (std::vector<int64_t>{8'008'000, 8'008'000}));
  EXPECT_DOUBLE_EQ(imbalance(placement), 1);
}

TEST(Placement, PartitionedCutsLargeParameters) {
  const auto parameters = parameters_of({{"embedding.weight", {1000, 10}}, {"fc.weight", {10, 10}}});
  const Placement placement = place_partitioned(parameters, 2);
  EXPECT_EQ(names_of(placement[0]), (std::vector<std::string>{"embedding.weight[0:505]"}));
  EXPECT_EQ(names_of(placement[1]), (std::vector<std::string>{"embedding.weight[505:1000]", "fc.weight"}));
  EXPECT_EQ(bytes_of(placement), (std::vector<int64_t>{20'200, 20'200}));
}

TEST(Placement, PartitionedServersHaveAtMostTheirShareAndARow) {
  const auto parameters = resnet34();
  int64_t total = 0;
  int64_t longest_row = 0;
  for (const ParameterInfo& parameter : parameters) {
    total += 4 * parameter.shape.elements();
    longest_row = std::max(longest_row, 4 * parameter.shape.elements_per_item());
  }
  for (const int servers : {1, 2, 3, 5, 7, 64}) {
    const Placement placement = place_partitioned(parameters, servers);
    check_placement(placement, parameters, servers);
    for (const int64_t bytes : bytes_of(placement)) EXPECT_LE(bytes, total / servers + 1 + longest_row);
  }
}

/// Compares the bytes on each server.
/// The network has 21,814,696 floats, including the running statistics of batch norm.
TEST(Placement, ResNet34OnTwoAndThreeServers) {
  const auto parameters = resnet34();
  const auto table = [&](const Placer& place, int servers) {
    const Placement placement = place(parameters, servers);
    check_placement(placement, parameters, servers);
    return bytes_of(placement);
  };
  EXPECT_EQ(table(place_round_robin, 2), (std::vector<int64_t>{46'374'144, 40'884'640}));
  EXPECT_EQ(table(place_round_robin, 3), (std::vector<int64_t>{29'721'600, 35'143'072, 22'394'112}));
  EXPECT_EQ(table(place_greedy, 2), (std::vector<int64_t>{43'629'312, 43'629'472}));
  EXPECT_EQ(table(place_greedy, 3), (std::vector<int64_t>{29'086'368, 29'086'208, 29'086'208}));
  EXPECT_EQ(table(place_partitioned, 2), (std::vector<int64_t>{43'629'392, 43'629'392}));
  EXPECT_EQ(table(place_partitioned, 3), (std::vector<int64_t>{29'086'264, 29'086'264, 29'086'256}));
}

TEST(Placement, NamesTakePrecedenceOverThePolicy) {
  const Placer place = place_by_name({{"*.bias", 1}, {"fc0*", 0}}, place_greedy);
  const Placement placement = place(alternating(), 2);
  EXPECT_EQ(names_of(placement[0]), (std::vector<std::string>{"fc0.weight", "fc1.weight", "fc3.weight"}));
  EXPECT_EQ(names_of(placement[1]),
            (std::vector<std::string>{"fc0.bias", "fc1.bias", "fc2.weight", "fc2.bias", "fc3.bias"}));
}

TEST(Placement, ChecksACustomFunction) {
  const auto parameters = parameters_of({{"a", {4, 2}}, {"b", {3}}});
  const auto fails = [&](const Placement& placement) {
    return test::sentence_of([&] { check_placement(placement, parameters, 2); });
  };
  const Piece a{"a", {4, 2}, 0, 4};
  const Piece b{"b", {3}, 0, 3};
  EXPECT_NO_THROW(check_placement({{a}, {b}}, parameters, 2));
  EXPECT_EQ(fails({{a}}), "the placement is for 1 servers; there are 2");
  EXPECT_EQ(fails({{a}, {}}), "the placement has rows 0 to 3 of 'b' on no server");
  EXPECT_EQ(fails({{a}, {b, {"a", {4, 2}, 2, 4}}}), "the placement has rows 2 to 4 of 'a' on two servers");
  EXPECT_EQ(fails({{a}, {b, {"c", {1}, 0, 1}}}), "the placement names 'c', which is not in the model");
}

}  // namespace
}  // namespace telar
