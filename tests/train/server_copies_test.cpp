#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "cli/command.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

/// Trains $1 with these options, and with the setting $4 on $5 servers. From the moment at which what each of
/// them holds has two copies, and again after each fault: a server is killed, killed, killed, or stopped for
/// 3 s.
constexpr const char* kFaults =
    "$TELAR train small.yaml --output $1 --set $4 --set strategy.name=$2 >$1.out 2>$1.err & job=$!\n"
    "copies() { cat $1/logs/events.log 2>/dev/null | grep -c 'has 2 copies'; }\n"
    "fault=0\n"
    "while kill -0 $job 2>/dev/null; do\n"
    "  sleep 0.1\n"
    "  [ \"$(copies $1)\" -ge $(($5 * fault + $5)) ] && [ $fault -lt $3 ] || continue\n"
    "  server=$(pgrep -f \"$PWD/$1/servers/$((fault % 2))/address\")\n"
    "  fault=$((fault + 1))\n"
    "  if [ $fault -lt 4 ]; then kill -KILL $server; else kill -STOP $server; sleep 3; kill -CONT $server; fi\n"
    "done\n"
    "wait $job; code=$?; echo $fault >$1.faults; exit $code\n";

class ServerCopies : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "small.yaml",
               "model: {name: mlp, options: {hidden: [16]}}\n"
               "data: {source: synthetic, samples: 3200, shape: [1, 6, 6], classes: 3, validation: 0}\n"
               "optimizer: {name: adam, learning_rate: 0.001}\n"
               "training: {epochs: 24, batch: 32}\n"
               "strategy: {name: sync_ps, workers: 2, threads: 1, placement: partitioned}\n"
               "output: {tensorboard: false, checkpoint_epochs: 0}\n");
    write_text(folder_ / "faults.sh", kFaults);
  }

  /// Two servers have copies by default; a single one has a second process for its copy.
  int train(const std::string& run, const std::string& strategy, int faults, int servers = 2) const {
    const std::string setting =
        servers == 1 ? "strategy.server_replicas=2" : fmt::format("strategy.servers={}", servers);
    const std::string line = "cd '" + folder_.path().string() + "' && TELAR='" + telar_program() +
                             "' timeout 200 bash faults.sh " + run + " " + strategy + " " +
                             std::to_string(faults) + " " + setting + " " + std::to_string(servers);
    return WEXITSTATUS(std::system(line.c_str()));  // NOLINT(concurrency-mt-unsafe): one thread
  }

  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    std::istringstream lines(read_text(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.at("kind") == "step") losses.push_back(json.at("loss").get<double>());
    }
    return losses;
  }
  std::string text(const std::string& file) const { return read_text(folder_ / file); }

  TempFolder folder_;
};

TEST_F(ServerCopies, ASynchronousRunWhoseServersAreKilledAndStoppedIsTheQuietOne) {
  ASSERT_EQ(train("quiet", "sync_ps", 0), 0) << text("quiet.err");
  ASSERT_EQ(train("storm", "sync_ps", 4), 0) << text("storm.err") << text("storm.out");
  EXPECT_GE(std::stoi(text("storm.faults")), 3) << text("storm.out");
  const std::vector<double> expected = losses("quiet");
  const std::vector<double> losses = this->losses("storm");
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i)
    ASSERT_NEAR(losses[i], expected[i], 1e-6 * expected[i]) << "step " << i + 1;
  const auto lost = nlohmann::json::parse(text("storm/summary.json")).at("losses").at("lost_updates");
  EXPECT_EQ(lost, (std::vector<int>{0, 0}));
}

TEST_F(ServerCopies, ASingleServerHasASecondProcessForItsCopy) {
  ASSERT_EQ(train("single", "async_sgd", 2, 1), 0) << text("single.err") << text("single.out");
  EXPECT_EQ(std::stoi(text("single.faults")), 2) << text("single.out");
  const auto lost = nlohmann::json::parse(text("single/summary.json")).at("losses").at("lost_updates");
  EXPECT_EQ(lost, (std::vector<int>{0}));
}

TEST_F(ServerCopies, AreOnOtherServersAndWithoutSnapshots) {
  const CommandResult refused = telar_in(
      folder_.path(),
      "train small.yaml --set strategy.server_replicas=2 --set strategy.server_addresses=[127.0.0.1:1]");
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(says(refused.err, "strategy.servers is 1, and each copy is on another server"));
  const CommandResult unused = telar_in(
      folder_.path(),
      "train small.yaml --check --set strategy.servers=2 --set strategy.server_replicas=2 --set strategy.snapshot_seconds=1");
  EXPECT_EQ(unused.code, 2);
  EXPECT_TRUE(says(unused.err, "servers with copies (strategy.server_replicas: 2) keep no snapshots"));
}

}  // namespace
}  // namespace telar::test
