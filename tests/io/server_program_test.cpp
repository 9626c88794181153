#include "telar/io/server_program.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/sentences.h"
#include "telar/graph/ops/update.h"
#include "telar/io/graph_json.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

using test::expect_error;

TrainingStep step_with(const Optimizer& optimizer, std::optional<double> clip_norm = std::nullopt) {
  StepOptions options;
  options.optimizer = optimizer;
  options.clip_norm = clip_norm;
  return make_training_step(make_model("mlp", {{"hidden", std::vector<int64_t>{8}}}, {6}, 3), options);
}

std::vector<ServerProgram> servers_with(const Optimizer& optimizer,
                                        const std::string& placement = "partitioned") {
  const Cluster cluster{.devices = {DeviceSpec{}}, .servers = 2};
  return make_strategy("async_sgd", {{"placement", placement}})
      .rewrite(step_with(optimizer), cluster)
      .stores.at(0)
      .servers;
}

const std::vector<Optimizer> kOptimizers = {SgdOptions{},
                                            SgdOptions{.momentum = 0.9, .nesterov = true},
                                            AdamOptions{.decoupled = true},
                                            RmspropOptions{},
                                            RmspropOptions{.momentum = 0.5},
                                            AdagradOptions{.lr_decay = 1e-3}};

TEST(GraphJson, EveryUpdateGraphHasTheSameTextAfterATransfer) {
  for (const Optimizer& optimizer : kOptimizers) {
    for (const std::optional<double> clip_norm : {std::optional<double>(), std::optional<double>(0.1)}) {
      const Graph update = step_with(optimizer, clip_norm).update;
      const Graph again = graph_of_json(nlohmann::json::parse(json_of(update).dump()),
                                        add_found(find_update_operation), "it");
      EXPECT_EQ(again.str(), update.str());
    }
  }
}

/// An operation with an attribute of every type.
class ManyAttributes final : public Op {
 public:
  std::string_view name() const override { return "many"; }
  std::vector<TensorType> infer(const std::vector<TensorType>& inputs, const Attributes&) const override {
    return {inputs.at(0), {DType::i32, {2}}};
  }
};

TEST(GraphJson, KeepsBatchedInputsAttributesResultsAndOutputs) {
  const ManyAttributes op;
  GraphBuilder builder;
  const ValueId x = builder.input("x", {DType::bf16, {4, 3}}, true);
  const ScopeGuard scope(builder, "layer");
  const Attributes attributes{{"flag", true},
                              {"integer", int64_t{-7}},
                              {"real", 1.0},
                              {"tiny", 0.1},
                              {"text", std::string("a")},
                              {"integers", std::vector<int64_t>{}},
                              {"reals", std::vector<double>{1.0, 2.5}},
                              {"texts", std::vector<std::string>{"b"}}};
  const auto first = builder.add(op, {x}, attributes);
  builder.add(op, {first[0], kNoValue});
  builder.parameter("late", {DType::f32, {2}});
  builder.output("prediction", first[1]);
  const Graph graph = builder.build();
  const auto find = [&](std::string_view name) { return name == "many" ? &op : nullptr; };
  const Graph again = graph_of_json(nlohmann::json::parse(json_of(graph).dump()), add_found(find), "it");
  EXPECT_EQ(again.str(), graph.str());
  EXPECT_EQ(again.nodes()[0].attributes, attributes);
  EXPECT_EQ(again.with_batch(9).value(x).type.shape, (Shape{9, 3}));
}

// The names of parameters may look like those of buffers.
TEST(GraphJson, KeepsWhatBuffersAreFor) {
  const TensorType type{DType::f32, {3}};
  GraphBuilder builder;
  builder.parameter("gradient/w", type);
  builder.gradient("gradient/w", type);
  builder.gradient("metric/loss", type);
  builder.metric("loss");
  builder.optimizer_state("adam_m", "adam_v/w", type);
  builder.optimizer_state("adam_v", "adam_v/w", type);
  const Graph graph = builder.build();
  const Graph again =
      graph_of_json(nlohmann::json::parse(json_of(graph).dump()), add_found(find_update_operation), "it");
  ASSERT_EQ(again.values().size(), graph.values().size());
  for (size_t v = 0; v < graph.values().size(); ++v) {
    EXPECT_EQ(again.values()[v].kind, graph.values()[v].kind) << graph.values()[v].text();
    EXPECT_EQ(again.values()[v].name, graph.values()[v].name);
    EXPECT_EQ(again.values()[v].slot, graph.values()[v].slot);
  }
  EXPECT_EQ(again.str(), graph.str());
}

TEST(GraphJson, RefusesABufferThatIsForNothing) {
  for (const std::string name : {"w", "/w", "gradient/", "/", ""}) {
    nlohmann::json entries = nlohmann::json::array();
    entries.push_back({{"kind", "buffer"}, {"name", name}, {"type", "f32"}, {"shape", {3}}});
    expect_error([&] { graph_of_json(entries, add_found(find_update_operation), "the program"); },
                 {"the program, entry 0", "a buffer cannot be named '" + name + "'"});
  }
}

TEST(ServerProgramText, IsTheSameProgramAfterATransfer) {
  for (const Optimizer& optimizer : kOptimizers) {
    for (const ServerProgram& server : servers_with(optimizer)) {
      const ServerProgram again = server_program_from_json(to_json(server), "it");
      EXPECT_EQ(again.update.str(), server.update.str());
      EXPECT_EQ(difference(server, again), "");
      ASSERT_EQ(again.pieces.size(), server.pieces.size());
      for (size_t p = 0; p < server.pieces.size(); ++p) {
        EXPECT_EQ(again.pieces[p], server.pieces[p]);
      }
    }
  }
}

TEST(ServerProgramText, DifferencesAreNamed) {
  const auto sgd = servers_with(SgdOptions{.momentum = 0.9}, "greedy");
  EXPECT_TRUE(
      test::says(difference(sgd[0], servers_with(SgdOptions{.momentum = 0.8}, "greedy")[0]), "momentum=0.9"));
  EXPECT_TRUE(test::says(
      difference(sgd[0], servers_with(AdamOptions{}, "greedy")[0]),
      "is sgd_update {momentum=0.9, nesterov=false, weight_decay=0} on the server, but adam_update"));
  EXPECT_TRUE(test::says(difference(sgd[0], sgd[1]), "the server holds '"));
  ServerProgram less = sgd[1];
  less.pieces.pop_back();
  EXPECT_TRUE(test::says(difference(less, sgd[1]), "which the server does not hold"));
  ServerProgram turned = sgd[1];
  ASSERT_GT(turned.pieces.size(), 1U);
  turned.pieces = {turned.pieces.rbegin(), turned.pieces.rend()};
  EXPECT_TRUE(test::says(difference(turned, sgd[1]), "piece 0 is '"));
}

TEST(ServerProgramText, WhatIsWrongIsNamed) {
  const auto read = [](const std::function<void(nlohmann::json&)>& change) {
    const auto servers = servers_with(SgdOptions{.momentum = 0.9}, "greedy");
    nlohmann::json json = nlohmann::json::parse(to_json(servers[0]));
    change(json);
    return [text = json.dump()] { server_program_from_json(text, "the program"); };
  };
  EXPECT_NO_THROW(read([](nlohmann::json&) {})());
  const auto operation = [](nlohmann::json& json) -> nlohmann::json& {
    for (nlohmann::json& entry : json["update"])
      if (entry["kind"] == "operation") return entry;
    throw std::logic_error("no operation");
  };
  expect_error(read([](nlohmann::json& json) { json["form"] = 2; }), {"another form", "same release"});
  expect_error(read([&](nlohmann::json& json) { operation(json)["name"] = "conv2d"; }),
               {"entry ", "the operation 'conv2d' is unknown"});
  expect_error(read([&](nlohmann::json& json) { operation(json)["inputs"][0] = 1000; }),
               {"inputs contains 1000", "a list of integers from -1 to"});
  expect_error(read([&](nlohmann::json& json) { operation(json)["attributes"].erase("nesterov"); }),
               {"sgd_update needs the attribute nesterov, which is true or false"});
  expect_error(read([&](nlohmann::json& json) { operation(json)["attributes"]["momentum"] = 0.0; }),
               {"sgd_update has 6 inputs, not 7"});
  expect_error(read([&](nlohmann::json& json) { json["pieces"][0]["end"] = 0; }), {"piece 0: end is 0"});
  expect_error(read([&](nlohmann::json& json) {
                 json["pieces"][0]["shape"] = {int64_t{1} << 40, int64_t{1} << 40};
               }),
               {"larger than the memory that any process can address"});
  expect_error(read([&](nlohmann::json& json) { json["pieces"].push_back(json["pieces"][0]); }),
               {"a piece is listed twice"});
  expect_error(read([&](nlohmann::json& json) { json["update"].push_back(operation(json)); }),
               {"is updated twice"});
  expect_error(
      read([&](nlohmann::json& json) { operation(json)["inputs"][1] = operation(json)["inputs"][2]; }),
      {"input 1 of sgd_update must be 'gradient/"});
}

TEST(ServerProgramText, AProgramThatIsTooLargeForAMessageIsRefused) {
  ServerProgram server;
  for (int p = 0; p < 40'000; ++p)
    server.pieces.push_back(Piece{std::string(80, 'w') + std::to_string(p), {2}, 0, 2});
  expect_error([&] { to_json(server); }, {"40000 pieces", "use more servers"});
}

}  // namespace
}  // namespace telar
