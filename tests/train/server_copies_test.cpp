#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "cli/command.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

/// Trains $1 with these options, and with the setting $4. From the moment at which all variables have two
/// copies, and again after each fault: a server is killed, killed, killed, or stopped for 3 s.
constexpr const char* kFaults =
    "$TELAR train small.yaml --output $1 --set $4 --set strategy.name=$2 >$1.out 2>$1.err & job=$!\n"
    "copies() { cat $1/logs/events.log 2>/dev/null | grep -c 'all variables have 2 copies'; }\n"
    "fault=0\n"
    "while kill -0 $job 2>/dev/null; do\n"
    "  sleep 0.1\n"
    "  [ \"$(copies $1)\" -gt $fault ] && [ $fault -lt $3 ] || continue\n"
    "  server=$(pgrep -f \"$PWD/$1/servers/$((fault % 2))/address\")\n"
    "  fault=$((fault + 1))\n"
    "  if [ $fault -lt 4 ]; then kill -KILL $server; else kill -STOP $server; sleep 3; kill -CONT $server; fi\n"
    "done\n"
    "wait $job; code=$?; echo $fault >$1.faults; exit $code\n";

/// Trains $1 with the strategy $2 on two servers and two workers. A third server joins in the middle; when a
/// copy has moved to it, the first one is killed. The training ends 100 steps after the third one has become
/// a head.
constexpr const char* kJoins =
    "export TELAR_TOKEN=a-token-of-a-test; rm -f *.address *.log; run=$1\n"
    "trap 'kill -KILL $(jobs -p) 2>/dev/null' EXIT\n"
    "until_there() { until \"$@\"; do kill -0 $job || exit 99; sleep 0.05; done; }\n"
    "serve() { exec $TELAR serve --listen 127.0.0.1:0 --address-file $1.address \"${@:2}\" >$1.log 2>&1; }\n"
    "job=$$\n"
    "serve one & one=$!\n"
    "serve two & two=$!\n"
    "until_there test -s one.address -a -s two.address\n"
    "$TELAR train small.yaml --output $1 --coordinate 127.0.0.1:0 --set \"strategy={name: $2, workers: 2, "
    "threads: 1, placement: partitioned, servers: 2, server_addresses: [$(cat one.address), $(cat two.address)]}\" "
    "--set training.epochs=1000000 >$1.out 2>$1.err & job=$!\n"
    "until_there grep -sq 'work --join' $1.out\n"
    "at=$(sed -n 's/.*work --join //p' $1.out)\n"
    "for worker in 1 2; do $TELAR work --join $at >worker-$worker.log 2>&1 & done\n"
    "until_there grep -sq '\"step\": *100' $1/metrics.jsonl\n"
    "serve three --join $at & three=$!\n"
    "until_there grep -q 'is on another server now' one.log two.log\n"
    "kill -KILL $one\n"
    "until_there grep -q \"is served by $(cat three.address) now\" $1/logs/events.log\n"
    "steps=$(wc -l <$1/metrics.jsonl)\n"
    "until_there eval '[ $(wc -l <$run/metrics.jsonl) -gt $((steps + 100)) ]'\n"
    "kill $job\n"
    "wait $job\n";

/// Trains $1 with the strategy $2. Both servers are killed, in one command, after each of the first $3
/// checkpoints as soon as 20 more steps are made.
constexpr const char* kBoth =
    "$TELAR train small.yaml --output $1 --set strategy.name=$2 --set strategy.servers=2 "
    "--set training.epochs=12 --set output.checkpoint_epochs=1 >$1.out 2>$1.err & job=$!\n"
    "for ((fault = 1; fault <= $3; ++fault)); do\n"
    "  at=$(ls $1/checkpoints 2>/dev/null | sort -V | tail -1)\n"
    "  until now=$(ls $1/checkpoints 2>/dev/null | sort -V | tail -1); [ -n \"$now\" -a \"$now\" != \"$at\" ]; do\n"
    "    kill -0 $job || exit 99; sleep 0.02; done\n"
    "  steps=$(wc -l <$1/metrics.jsonl)\n"
    "  until [ $(wc -l <$1/metrics.jsonl) -gt $((steps + 20)) ]; do kill -0 $job || exit 99; sleep 0.02; done\n"
    "  kill -KILL $(pgrep -f \"$PWD/$1/servers/[01]/address\")\n"
    "  until [ $(grep -c 'goes back' $1.err) -ge $fault ]; do kill -0 $job || exit 98; sleep 0.02; done\n"
    "done\n"
    "wait $job\n";

/// Trains $1 on three servers, of which two are killed in one command, three times.
constexpr const char* kTwoOfThree =
    "$TELAR train small.yaml --output $1 --set strategy.servers=3 --set strategy.server_replicas=3 --set training.epochs=12 >$1.out 2>$1.err & job=$!\n"
    "for fault in 1 2 3; do\n"
    "  until [ $(cat $1/logs/events.log 2>/dev/null | grep -c 'all variables have 3 copies') -ge $fault ]; do\n"
    "    kill -0 $job || exit 99; sleep 0.02; done\n"
    "  kill -KILL $(pgrep -f \"$PWD/$1/servers/[^$((fault % 3))]/address\")\n"
    "done\n"
    "wait $job\n";

/// Trains $1 on two servers and two workers that are as on other hosts. Both servers are killed after the
/// second checkpoint, and started again at their addresses.
constexpr const char* kElsewhere =
    "export TELAR_TOKEN=a-token-of-a-test; rm -f *.address *.log; run=$1\n"
    "trap 'kill -KILL $(jobs -p) 2>/dev/null' EXIT\n"
    "job=$$\n"
    "until_there() { until \"$@\"; do kill -0 $job || exit 99; sleep 0.02; done; }\n"
    "$TELAR serve --listen 127.0.0.1:0 --address-file one.address 2>one.log & one=$!\n"
    "$TELAR serve --listen 127.0.0.1:0 --address-file two.address 2>two.log & two=$!\n"
    "until_there test -s one.address -a -s two.address\n"
    "$TELAR train small.yaml --output $1 --coordinate 127.0.0.1:0 --set training.epochs=12 --set output.checkpoint_epochs=1 --set "
    "\"strategy={name: sync_ps, workers: 2, threads: 1, placement: partitioned, servers: 2, "
    "server_addresses: [$(cat one.address), $(cat two.address)]}\" >$1.out 2>$1.err & job=$!\n"
    "until_there grep -sq 'work --join' $1.out\n"
    "at=$(sed -n 's/.*work --join //p' $1.out)\n"
    "$TELAR work --join $at >worker-1.log 2>&1 & first=$!\n"
    "$TELAR work --join $at >worker-2.log 2>&1 & second=$!\n"
    "until_there eval '[ $(ls $run/checkpoints 2>/dev/null | wc -l) -ge 2 ]'\n"
    "kill -KILL $one $two\n"
    "$TELAR serve --listen $(cat one.address) 2>one.log &\n"
    "$TELAR serve --listen $(cat two.address) 2>two.log &\n"
    "wait $job || exit\n"
    "wait $first && wait $second\n";

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
    write_text(folder_ / "joins.sh", kJoins);
    write_text(folder_ / "both.sh", kBoth);
    write_text(folder_ / "elsewhere.sh", kElsewhere);
    write_text(folder_ / "two_of_three.sh", kTwoOfThree);
  }

  /// Two servers have copies by default; a single one has a second process for its copy.
  int train(const std::string& run, const std::string& strategy, int faults, int servers = 2,
            size_t epochs = 24) const {
    const std::string setting =
        servers == 1 ? "strategy.server_replicas=2"
                     : fmt::format("strategy.servers={} --set training.epochs={}", servers, epochs);
    return bash("faults.sh " + run + " " + strategy + " " + std::to_string(faults) + " '" + setting + "'");
  }

  std::string text(const std::string& file) const { return read_text(folder_ / file); }

  /// The exit code of a script with these arguments.
  int bash(const std::string& arguments) const {
    const std::string line = "cd '" + folder_.path().string() + "' && TELAR='" + telar_program() +
                             "' timeout 200 bash " + arguments;
    return WEXITSTATUS(std::system(line.c_str()));  // NOLINT(concurrency-mt-unsafe): one thread
  }

  void expect_equal_losses(const std::string& run, const std::string& quiet) const {
    const std::vector<double> expected = this->losses(quiet);
    const std::vector<double> losses = this->losses(run);
    ASSERT_LE(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i)
      ASSERT_NEAR(losses[i], expected[i], 1e-6 * expected[i]) << "step " << i + 1;
  }
  void expect_nothing_lost(const std::string& run, int servers = 2) const {
    const auto lost = nlohmann::json::parse(text(run + "/summary.json")).at("losses").at("lost_updates");
    EXPECT_EQ(lost, std::vector<int>(static_cast<size_t>(servers), 0));
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

  TempFolder folder_;
};

TEST_F(ServerCopies, ASynchronousRunWhoseServersAreKilledAndStoppedIsTheQuietOne) {
  ASSERT_EQ(train("quiet", "sync_ps", 0), 0) << text("quiet.err");
  ASSERT_EQ(train("storm", "sync_ps", 4), 0) << text("storm.err") << text("storm.out");
  EXPECT_GE(std::stoi(text("storm.faults")), 3) << text("storm.out");
  EXPECT_EQ(losses("storm").size(), losses("quiet").size());
  expect_equal_losses("storm", "quiet");
  expect_nothing_lost("storm");
}

/// The server that has joined is then the head of what the killed one held.
TEST_F(ServerCopies, AServerJoinsAndTakesThePlaceOfOneThatIsKilled) {
  for (const std::string strategy : {"sync_ps", "downpour"}) {
    ASSERT_EQ(bash("joins.sh " + strategy + " " + strategy), 143)
        << text(strategy + ".err") << text(strategy + ".out") << text("three.log");
    expect_nothing_lost(strategy);
    const std::string events = text(strategy + "/logs/events.log");
    const std::string address = text("three.address").substr(0, text("three.address").find('\n'));
    EXPECT_TRUE(says(events, "the parameter server " + address + " has joined"));
    EXPECT_TRUE(says(events, "is served by " + address + " now"));
    EXPECT_TRUE(says(text(strategy + "/joined_servers"), address));
  }
  const size_t epochs = losses("sync_ps").size() / 100 + 1;
  ASSERT_EQ(train("quiet", "sync_ps", 0, 2, epochs), 0) << text("quiet.err");
  expect_equal_losses("sync_ps", "quiet");
}

TEST_F(ServerCopies, ARunWithoutAnyCopyOfAVariableGoesBackToItsCheckpoint) {
  ASSERT_EQ(train("quiet", "sync_ps", 0, 2, 12), 0) << text("quiet.err");
  ASSERT_EQ(bash("both.sh both sync_ps 3"), 0) << text("both.err") << text("both.out");
  EXPECT_TRUE(says(text("both.err"), "no copy of what parameter server"));
  EXPECT_TRUE(says(text("both.err"), "the run goes back from step"));
  EXPECT_EQ(losses("both").size(), losses("quiet").size());
  expect_equal_losses("both", "quiet");
  expect_nothing_lost("both");
  EXPECT_EQ(nlohmann::json::parse(text("both/summary.json")).at("epochs"), 12);
}

/// Nothing has to be made again.
TEST_F(ServerCopies, WithThreeCopiesTwoServersMayBeLostInTheSameMoment) {
  ASSERT_EQ(train("quiet", "sync_ps", 0, 2, 12), 0) << text("quiet.err");
  ASSERT_EQ(bash("two_of_three.sh three"), 0) << text("three.err") << text("three.out");
  EXPECT_FALSE(says(text("three.err"), "goes back"));
  expect_equal_losses("three", "quiet");
  expect_nothing_lost("three", 3);
}

TEST_F(ServerCopies, WorkersOfOtherHostsFollowARunThatGoesBack) {
  ASSERT_EQ(train("quiet", "sync_ps", 0, 2, 12), 0) << text("quiet.err");
  ASSERT_EQ(bash("elsewhere.sh elsewhere"), 0)
      << text("elsewhere.err") << text("elsewhere.out") << text("worker-1.log");
  EXPECT_TRUE(says(text("elsewhere.err"), "the run goes back from step"));
  expect_equal_losses("elsewhere", "quiet");
  expect_nothing_lost("elsewhere");
}

TEST_F(ServerCopies, AServerJoinsUnderItsHostAndOnlyWhereThereAreCopies) {
  const CommandResult nowhere =
      telar_in(folder_.path(), "serve --listen 0.0.0.0:0 --insecure-network --join 127.0.0.1:1");
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(says(nowhere.err, "tells the coordinator its address, so --listen names its host"));
  write_text(folder_ / "refused.sh",
             "export TELAR_TOKEN=a-token-of-a-test\n"
             "$TELAR train small.yaml --output one --coordinate 127.0.0.1:0 --set "
             "\"strategy={name: downpour, server_replicas: 1, server_addresses: [$1]}\" >one.out & job=$!\n"
             "until grep -sq 'work --join' one.out; do kill -0 $job || exit 99; sleep 0.05; done\n"
             "timeout 60 $TELAR serve --join $(sed -n 's/.*work --join //p' one.out) 2>refused.err; code=$?\n"
             "kill $job; wait $job; exit $code\n");
  write_text(folder_ / "host.sh",
             "export TELAR_TOKEN=a-token-of-a-test\n"
             "$TELAR serve --address-file one.address >one.log & server=$!\n"
             "until [ -s one.address ]; do kill -0 $server || exit 99; sleep 0.05; done\n"
             "bash refused.sh $(cat one.address); code=$?\n"
             "kill $server; wait $server; exit $code\n");
  EXPECT_EQ(bash("host.sh"), 2);
  EXPECT_TRUE(says(text("refused.err"), "those of this run have no copies (strategy.server_replicas)"));
}

TEST_F(ServerCopies, ASingleServerHasASecondProcessForItsCopy) {
  ASSERT_EQ(train("single", "async_sgd", 2, 1), 0) << text("single.err") << text("single.out");
  EXPECT_EQ(std::stoi(text("single.faults")), 2) << text("single.out");
  expect_nothing_lost("single", 1);
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
