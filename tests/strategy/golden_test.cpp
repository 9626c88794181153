#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "support/paths.h"
#include "support/sentences.h"
#include "telar/io/text_file.h"
#include "telar/nn/training_step.h"
#include "telar/nn/zoo.h"
#include "telar/strategy/strategy.h"

namespace telar {
namespace {

/// A recorded program: a strategy with its default options, or with others.
struct Recorded {
  std::string name;  ///< of its file
  std::string strategy = name;
  Attributes options = {};
};

std::vector<Recorded> recorded_programs() {
  std::vector<Recorded> programs;
  for (const std::string& name : strategy_names()) programs.push_back({name});
  for (const int64_t stage : {2, 3}) {
    programs.push_back({"sharded_" + std::to_string(stage),
                        "sharded",
                        {{"stage", stage}, {"whole_below", int64_t{8}}, {"bucket_mb", 1e-6}}});
  }
  return programs;
}

/// The program of every strategy, as text, for a small MLP with momentum, for two workers (or one) and two
/// servers. After a deliberate change, TELAR_UPDATE_GOLDEN=1 writes the files anew.
class GoldenProgram : public ::testing::TestWithParam<Recorded> {};

Program golden_program(const StrategyType& type, Attributes options) {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{4}}}, {3}, 2);
  const StepOptions step{.batch = 8, .optimizer = SgdOptions{.momentum = 0.9}};
  Cluster cluster;
  cluster.devices.resize(type.uses_servers ? 1 : static_cast<size_t>(usual_workers(type).count));
  cluster.servers = type.uses_servers ? 2 : 0;
  // So small a model is divided only on demand.
  const bool divides = std::ranges::any_of(type.options, [](const Option& o) { return o.name == "split"; });
  if (divides) options.set("split", std::vector<std::string>{"*1=columns", "*2=rows"});
  return make_strategy(type.name, options).rewrite(make_training_step(model, step), cluster);
}

void expect_as_recorded(const std::string& name, const std::string& text) {
  const std::filesystem::path file = std::filesystem::path(test::fixtures()) / "programs" / (name + ".txt");
  if (std::getenv("TELAR_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << text;
  ASSERT_TRUE(std::filesystem::exists(file))
      << file << " is missing; TELAR_UPDATE_GOLDEN=1 writes it, to be read before it is committed";
  EXPECT_EQ(text, read_text_file(file, "the recorded program"));
}

TEST_P(GoldenProgram, IsAsRecorded) {
  const Recorded& recorded = GetParam();
  expect_as_recorded(recorded.name, golden_program(strategy_type(recorded.strategy), recorded.options).str());
}

/// A program is that of all processes, so each makes the same.
std::string program_of_two(const std::string& strategy, const Attributes& options, int workers_each) {
  const Model model = make_model("mlp", {{"hidden", std::vector<int64_t>{4}}}, {3}, 2);
  const StepOptions step{.batch = 8, .optimizer = SgdOptions{.momentum = 0.9}, .clip_norm = 1.0};
  const auto made_by = [&](int process) {
    const Cluster cluster{std::vector<DeviceSpec>(static_cast<size_t>(workers_each)), 2, process};
    return make_strategy(strategy, options).rewrite(make_training_step(model, step), cluster).str();
  };
  EXPECT_EQ(made_by(0), made_by(1));
  return made_by(0);
}

TEST(GoldenPrograms, OfAPipelineOverTwoProcessesSendsAndReceives) {
  expect_as_recorded("pipeline_over_processes",
                     program_of_two("pipeline", {{"micro_batches", int64_t{3}}}, 1));
}

/// The number of values of each variable in these pieces, each piece counted once.
std::map<std::string, int64_t> values_in(const std::vector<Piece>& pieces) {
  std::map<std::string, int64_t> values;
  std::set<std::string> counted;
  for (const Piece& piece : pieces)
    if (counted.insert(piece.name()).second) values[piece.variable] += piece.floats();
  return values;
}

TEST_P(GoldenProgram, SaysWhoKeepsEveryParameter) {
  const Recorded& recorded = GetParam();
  const Program program = golden_program(strategy_type(recorded.strategy), recorded.options);
  std::map<std::string, int64_t> all;
  for (const ParameterInfo& parameter : program.parameters) all[parameter.name] = parameter.shape.elements();
  std::vector<Piece> of_workers;
  for (int64_t w = 0; w < program.mesh.workers(); ++w) {
    EXPECT_FALSE(program.worker(w).holdings.empty());
    for (const Holding& holding : program.worker(w).holdings)
      of_workers.push_back(piece_of(program, holding, w));
  }
  EXPECT_EQ(values_in(of_workers), all);
  for (const StoreProgram& store : program.stores) {
    std::vector<Piece> of_servers;
    for (const ServerProgram& server : store.servers)
      of_servers.insert(of_servers.end(), server.pieces.begin(), server.pieces.end());
    EXPECT_EQ(values_in(of_servers), all);
  }
}

TEST_P(GoldenProgram, HasTheStoresThatItsActionsName) {
  const Program program = golden_program(strategy_type(GetParam().strategy), GetParam().options);
  std::set<std::string> named;
  for (const WorkerProgram& kind : program.kinds)
    for (const ScheduledAction& scheduled : kind.schedule)
      if (!scheduled.store.empty()) named.insert(scheduled.store);
  std::set<std::string> stores;
  for (const StoreProgram& store : program.stores) stores.insert(store.name);
  EXPECT_EQ(named, stores);
}

TEST(GoldenPrograms, OfStagesThatDivideTheirLayersOverTwoProcesses) {
  const Attributes strategy{{"data", int64_t{1}},
                            {"model", int64_t{2}},
                            {"stages", int64_t{2}},
                            {"micro_batches", int64_t{2}},
                            {"split", std::vector<std::string>{"*=columns"}}};
  expect_as_recorded("hybrid_divided_stages", program_of_two("hybrid", strategy, 2));
}

INSTANTIATE_TEST_SUITE_P(Strategies, GoldenProgram, ::testing::ValuesIn(recorded_programs()),
                         [](const auto& tested) { return tested.param.name; });

TEST(Strategies, RefuseOptionsThatTheyDoNotHave) {
  test::expect_error(
      [] {
        make_strategy("downpour", {{"fetch_ever", int64_t{2}}});
      },
      {"strategy 'downpour' has no option 'fetch_ever'", "did you mean 'fetch_every'?"});
  test::expect_error(
      [] {
        make_strategy("downpour", {{"fetch_every", int64_t{0}}});
      },
      {"fetch_every=0", "an integer, at least 1"});
  test::expect_error(
      [] {
        make_strategy("mirrored", {{"batch_norm", "global"}});
      },
      {"batch_norm=global", "local or synchronised"});
  test::expect_error(
      [] {
        make_strategy("sharded", {{"stage", int64_t{4}}});
      },
      {"stage=4", "an integer, at least 1 and at most 3"});
  test::expect_error([] { make_strategy("single", {{"replicas", int64_t{2}}}); }, {"it has no options"});
  test::expect_error([] { make_strategy("mirored"); }, {"did you mean 'mirrored'?"});
}

}  // namespace
}  // namespace telar
