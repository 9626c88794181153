#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cli/command.h"
#include "support/paths.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

class OverPeers : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "small.yaml",
               "model: {name: mlp, options: {hidden: [16]}}\n"
               "data: {source: synthetic, samples: 300, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
               "training: {epochs: 4, batch: 32}\n"
               "strategy: {name: mirrored, replicas: 1, threads: 1}\n");
    write_text(folder_ / "token", "0123456789abcdef0123\n");
    write_text(folder_ / "other", "0123456789abcdef9999\n");
  }

  /// Runs a script in which T is the program; it ends within a minute. Returns its exit code.
  int run(const std::string& script) const {
    write_text(folder_ / "script.sh", "T='" + telar_program() + "'\n" + script);
    const std::string line = "cd '" + folder_.path().string() + "' && timeout 60 bash script.sh";
    return WEXITSTATUS(std::system(line.c_str()));  // NOLINT(concurrency-mt-unsafe): one thread
  }
  std::string text(const std::string& file) const { return read_text(folder_ / file); }

  /// A long run, and what happens when it has made steps. `does` sees the process id of a worker as $w.
  int while_training(const std::string& does, const std::string& options = {}) const {
    return run(
        "$T train small.yaml --output run --set training.epochs=1000000 --workers 3 " + options +
        " >out 2>err & job=$!\n"
        "for i in $(seq 300); do [ -s run/metrics.jsonl ] && break; sleep 0.1; done\n"
        "w=$(pgrep -f -- \"work --join .* --follow $job\" | tail -n 1)\n" +
        does +
        "\nwait $job; code=$?\n"
        "for i in $(seq 50); do pgrep -f -- \"--follow $job\" >/dev/null || exit $code; sleep 0.1; done; exit 99\n");
  }

  TempFolder folder_;
};

TEST_F(OverPeers, WhoDiesEndsTheOthersAtOnceAndIsNamed) {
  EXPECT_EQ(while_training("kill -KILL $w; date +%s%N >killed; wait $job; date +%s%N >ended"), 1)
      << text("err");
  EXPECT_TRUE(says(text("err"), "error: the process of rank ")) << text("err");
  EXPECT_TRUE(says(text("err"), "is lost: it has ended")) << text("err");
  EXPECT_TRUE(says(text("err"), "its last message, ")) << text("err");
  EXPECT_EQ(text("err").find("error: "), text("err").rfind("error: ")) << text("err");
  EXPECT_LT(std::stod(text("ended")) - std::stod(text("killed")), 5e9);
}

/// The loss of each step and epoch, and the last event of another kind.
struct Losses {
  std::map<std::pair<std::string, int64_t>, double> of;
  nlohmann::json event;
};

Losses losses_of(const std::string& metrics) {
  Losses losses;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    const std::string kind = record.at("kind");
    const std::string name = kind == "epoch" ? "validation_loss" : "loss";
    if (!record.contains(name)) {
      losses.event = record;
      continue;
    }
    const bool first = losses.of.emplace(std::pair(kind, record.at("step")), record.at(name)).second;
    EXPECT_TRUE(first) << line;
  }
  return losses;
}

void expect_those_of(const Losses& one, const Losses& left) {
  ASSERT_EQ(left.of.size(), one.of.size());
  for (const auto& [step, loss] : one.of)
    EXPECT_NEAR(left.of.at(step), loss, 1e-4 * std::max(0.01, loss)) << step.first << " " << step.second;
}

class OverPeersWithALoss : public OverPeers {
 protected:
  /// Trains with one device and with three processes, of which one is killed. Another one takes its place.
  /// Each step is in the log once, and is made with all of its samples: the losses are those of one device.
  void lose_one(const std::string& strategy) {
    const std::string options =
        " --set training.epochs=15 --set training.batch=64 --set data.samples=800 --set data.validation=0.2"
        " --set 'data.shape=[1, 16, 16]' --set 'model.options.hidden=[256]' --set optimizer.name=adam ";
    EXPECT_EQ(
        run("$T train small.yaml --output one --set strategy.name=single" + options +
            ">one.out 2>&1 || exit 98\n"
            "$T train small.yaml --output run --workers 3 --set 'strategy={threads: 1, min_workers: 2, " +
            strategy + "}'" + options +
            ">out 2>err & job=$!\n"
            "until w=$(pgrep -f -- \"work --join .* --follow $job\" | tail -n 1); [ -n \"$w\" ]; do :; done\n"
            "until [ \"$(cat run/metrics.jsonl 2>/dev/null | wc -l)\" -ge 10 ]; do kill -0 $job || break; done\n"
            "kill -KILL $w; wait $job\n"),
        0)
        << text("err");
    const Losses left = losses_of(text("run/metrics.jsonl"));
    expect_those_of(losses_of(text("one/metrics.jsonl")), left);
    EXPECT_EQ(left.event.at("kind"), "recovery");
    EXPECT_TRUE(says(left.event.at("come").get<std::string>(), "rank ")) << left.event;
    EXPECT_EQ(left.event.at("processes"), 3);
    EXPECT_EQ(left.event.at("steps_again"), 0);  // the newcomer was ready
    EXPECT_TRUE(says(text("out"), "lost: rank ")) << text("out");
    EXPECT_TRUE(says(text("out"), " with 2 processes")) << text("out");
    EXPECT_TRUE(says(text("out"), " with 3 processes")) << text("out");
    EXPECT_EQ(text("err"), "");
  }
};

TEST_F(OverPeersWithALoss, ThoseWhoAreLeftMakeTheStepAgainAndAnotherTakesTheFreePlace) {
  lose_one("name: mirrored, replicas: 1");
  EXPECT_FALSE(says(text("out"), "made again")) << text("out");
  EXPECT_EQ(nlohmann::json::parse(text("run/summary.json")).at("replicas"), 3);
}

// Before step 1000 there is only the copy of the beginning.
TEST_F(OverPeersWithALoss, ADividedStateGoesBackToTheCopyOfRank0) {
  lose_one("name: sharded, stage: 3, replicas: 1, keep_steps: 1000");
  EXPECT_TRUE(says(text("out"), "goes on after step 0 with 2 processes; ")) << text("out");
  EXPECT_TRUE(says(text("out"), " steps are made again")) << text("out");
}

TEST_F(OverPeersWithALoss, AnotherNumberOfProcessesHasOneThatItCanDivide) {
  lose_one("name: tensor, ways: 3, split: [\"fc1=columns\"], keep_steps: 7");
  EXPECT_TRUE(says(text("out"), " with 2 processes (strategy.ways: 2)")) << text("out");
  EXPECT_TRUE(says(text("out"), " with 3 processes (strategy.ways: 3)")) << text("out");
}

/// Kills the process that writes the run, again when another one does, which has a new number.
constexpr char kKillsTwoLeaders[] =
    "lines() { cat run/metrics.jsonl 2>/dev/null | wc -l; }\n"
    "until [ $(lines) -ge 10 ]; do kill -0 $job || exit 97; done\n"
    "for i in 1 2; do\n"
    "  w=$(cut -d' ' -f2 run/leader); at=$(lines); kill -KILL $w\n"
    "  until [ $(cut -d' ' -f2 run/leader) != $w ] && [ $(lines) -ge $((at + 10)) ]; do kill -0 $job || break; done\n"
    "done\n";

TEST_F(OverPeers, AnotherProcessGoesOnWhenTheOneThatWritesTheRunIsKilled) {
  for (const std::string strategy :
       {"name: mirrored, replicas: 1", "name: sharded, stage: 3, replicas: 1, keep_steps: 7"}) {
    const std::string options =
        " --set training.epochs=15 --set training.batch=64 --set data.samples=800 --set data.validation=0.2"
        " --set 'data.shape=[1, 16, 16]' --set 'model.options.hidden=[256]' --set optimizer.name=adam ";
    EXPECT_EQ(run("rm -rf one run; $T train small.yaml --output one --set strategy.name=single" + options +
                  ">one.out 2>&1 || exit 98\n"
                  "$T launch small.yaml --on local --processes 3 --output run --summary result.json --set "
                  "'strategy={threads: 1, min_workers: 1, " +
                  strategy + "}'" + options + ">out 2>err & job=$!\n" + kKillsTwoLeaders + "wait $job\n"),
              0)
        << text("err");
    const Losses left = losses_of(text("run/metrics.jsonl"));
    expect_those_of(losses_of(text("one/metrics.jsonl")), left);
    EXPECT_TRUE(says(text("err"), "leads the run from here on")) << text("err");
    EXPECT_FALSE(says(text("err"), "started again")) << text("err");
    EXPECT_TRUE(says(text("out"), "lost: rank ")) << text("out");
    EXPECT_EQ(text("result.json"), text("run/summary.json"));
  }
}

TEST_F(OverPeers, WithFewerThanItsLeastARunEnds) {
  EXPECT_EQ(while_training("kill -KILL $w", "--set strategy.min_workers=3"), 1) << text("err");
  EXPECT_TRUE(says(text("err"), "2 of at least 3 processes are left")) << text("err");
  EXPECT_TRUE(says(text("err"), "continue from it with --resume")) << text("err");
  EXPECT_EQ(text("err").find("error: "), text("err").rfind("error: ")) << text("err");
}

TEST_F(OverPeers, ATerminationOfOneProcessEndsAllWithItsCode) {
  EXPECT_EQ(while_training("kill -TERM $w"), 143) << text("err");
  EXPECT_TRUE(says(text("out"), "--resume"));
}

TEST_F(OverPeers, AWorkerThatIsStoppedForEverDoesNotOutliveARunThatFails) {
  EXPECT_EQ(while_training("kill -STOP $w; kill -KILL $job"), 137);
}

TEST_F(OverPeers, AnErrorOfAnotherRankNamesRankAndHostAndWhereToJoinIsAHost) {
  EXPECT_NE(run("hostname >host\n"
                "$T train small.yaml --output run --workers 2 --coordinate 0.0.0.0:0 --address-file at "
                "--insecure-network >out 2>err & job=$!\n"
                "for i in $(seq 300); do [ -s at ] && break; sleep 0.1; done\n"
                "$T work --join 127.0.0.1:$(cut -d: -f2 at) --set data.path=/nowhere 2>refused\n"
                "wait $job\n"),
            0);
  const std::string host = text("host").substr(0, text("host").find('\n'));
  EXPECT_TRUE(says(text("refused"), "error: rank 1 on " + host + ": ")) << text("refused");
  EXPECT_TRUE(says(text("out"), "telar work --join " + host + ":")) << text("out");
}

TEST_F(OverPeers, ProcessesJoinWithTheTokenOnly) {
  EXPECT_EQ(run("$T train small.yaml --output run --workers 3 --coordinate 127.0.0.1:0 --address-file at "
                "--token-file token >out 2>err & job=$!\n"
                "for i in $(seq 300); do [ -s at ] && break; sleep 0.1; done\n"
                "$T work --join $(cat at) --token-file other 2>refused && exit 98\n"
                "$T work --join $(cat at) --token-file token >first & \n"
                "$T work --join $(cat at) --token-file token >second || exit 97\n"
                "wait $job\n"),
            0)
      << text("err");
  EXPECT_TRUE(says(text("refused"), "refused: the token is not the one of this job"));
  EXPECT_TRUE(says(text("out"), "waiting for 2 other processes: telar work --join 127.0.0.1:"))
      << text("out");
  EXPECT_TRUE(says(text("out"), "has joined (3 of 3 processes)")) << text("out");
  EXPECT_TRUE(says(text("first") + text("second"), "as rank 1 of 3"));
  EXPECT_TRUE(says(text("first") + text("second"), "as rank 2 of 3"));
  EXPECT_EQ(nlohmann::json::parse(text("run/summary.json")).at("replicas"), 3);
}

TEST_F(OverPeers, WhoComesTooLateOrIsNotNeededIsToldSo) {
  EXPECT_EQ(
      run("$T train small.yaml --output run --set training.epochs=1000000 --workers 2 --coordinate 127.0.0.1:0 "
          "--address-file at >out 2>err & job=$!\n"
          "for i in $(seq 300); do [ -s at ] && break; sleep 0.1; done\n"
          "$T work --join $(cat at) >first &\n"
          "for i in $(seq 300); do [ -s run/metrics.jsonl ] && break; sleep 0.1; done\n"
          "$T work --join $(cat at) 2>late; echo $? >code\n"
          "kill -INT $job; wait $job\n"),
      130)
      << text("err");
  EXPECT_EQ(text("code"), "2\n");
  EXPECT_TRUE(says(text("late"), "refused: the 2 processes of this run have come already")) << text("late");
}

TEST_F(OverPeers, WhoComesWhenTheRunIsOverIsToldSoIfTheFirstProcessLingers) {
  // One of two is lost, and its place stays free.
  EXPECT_EQ(run("$T train small.yaml --output run --set strategy.min_workers=1 --set training.epochs=300 "
                "--workers 2 --coordinate 127.0.0.1:0 --linger 50 --address-file at >out 2>err & job=$!\n"
                "for i in $(seq 300); do [ -s at ] && break; sleep 0.1; done\n"
                "$T work --join $(cat at) >lost 2>&1 & w=$!\n"
                "for i in $(seq 300); do [ -s run/metrics.jsonl ] && break; sleep 0.1; done\n"
                "kill -KILL $w\n"
                "for i in $(seq 300); do grep -q 'are told so' out && break; sleep 0.1; done\n"
                "$T work --join $(cat at) --wait 5 >late 2>&1; echo $? >code\n"
                "wait $job\n"),
            0)
      << text("out") << text("err");
  EXPECT_EQ(text("code"), "0\n") << text("late");
  EXPECT_TRUE(says(text("late"), "the run is over, and needs no other process"));
  EXPECT_TRUE(says(text("out"), "1 of 1 came, and know that the run is over"));

  EXPECT_EQ(run("$T serve --listen 127.0.0.1:0 >server 2>&1 & s=$!\n"
                "for i in $(seq 300); do grep -q 'serving' server && break; sleep 0.1; done\n"
                "p=$((20000 + RANDOM % 10000)); a=$(grep -o '127.0.0.1:[0-9]*' server | head -n 1)\n"
                "$T train small.yaml --output served --set training.epochs=15 --set "
                "\"strategy={name: sync_ps, workers: 2, server_addresses: [$a]}\" "
                "--coordinate 127.0.0.1:$p --linger 50 >out 2>err & job=$!\n"
                "$T work --join 127.0.0.1:$p >one 2>&1 & w=$!\n"
                "$T work --join 127.0.0.1:$p >two 2>&1 &\n"
                "for i in $(seq 300); do [ -s served/metrics.jsonl ] && break; sleep 0.1; done\n"
                "kill -KILL $w\n"
                "for i in $(seq 300); do grep -q 'are told so' out && break; sleep 0.1; done\n"
                "$T work --join 127.0.0.1:$p --wait 5 >late 2>&1; echo $? >code\n"
                "wait $job; code=$?; kill $s; exit $code\n"),
            0)
      << text("out") << text("err") << text("server");
  EXPECT_EQ(text("code"), "0\n") << text("late");
  EXPECT_TRUE(says(text("late"), "the run is over"));
}

TEST_F(OverPeers, OptionsThatDoNotFitAreRefused) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"--workers 2 --set strategy.name=downpour", "strategy.workers says how many workers there are"},
      {"--coordinate 127.0.0.1:0", "say with --workers how many processes there will be"},
      {"--address-file at", "--address-file needs --coordinate"},
      {"--wait 5", "--wait needs --coordinate"},
      {"--linger 5", "--linger requires --coordinate"},
      {"--linger 5 --coordinate 127.0.0.1:7000 --fold all", "--linger is for one run"},
      {"--linger 5 --coordinate 127.0.0.1:0 --set strategy.name=downpour", "name a port in --coordinate"},
      {"--workers 2 --coordinate 10.0.0.1:0", "is not safe without certificates and a token"},
      {"--workers 2 --set strategy.min_workers=3", "strategy.min_workers is 3, but the run has 2 processes"},
      {"--set strategy.min_workers=2", "strategy.min_workers is 2, but the run has 1 process"},
      {"--workers 2 --profile --set strategy.min_workers=1", "leave out --profile or strategy.min_workers"},
      {"--workers 2 --set strategy.min_workers=1 --set device=cuda", "GPUs have steps under way"},
      {"--workers 2 --set strategy.name=sync_ps --set strategy.min_workers=1", "strategy.min_workers is for"},
      {"--workers 2 --set 'strategy={name: tensor, threads: [1, 1], min_workers: 1}'",
       "names one for each worker"},
      {"--workers 0", "--workers"}};
  for (const auto& [options, why] : mistakes) {
    const CommandResult result = telar_in(folder_.path(), "train small.yaml " + options, "timeout 20");
    EXPECT_EQ(result.code, 2) << options;
    EXPECT_TRUE(says(result.err, why)) << options << ": " << result.err;
  }
  const CommandResult twice = telar_in(
      folder_.path(), "train small.yaml --workers 2",
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 20 mpirun -n 2 --oversubscribe");
  EXPECT_EQ(twice.code, 2);
  EXPECT_TRUE(says(twice.err, "mpirun has started 2 processes, and --workers would start others"))
      << twice.err;
  const CommandResult started = telar_in(
      folder_.path(), "train small.yaml --set strategy.min_workers=1",
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 20 mpirun -n 2 --oversubscribe");
  EXPECT_EQ(started.code, 2);
  EXPECT_TRUE(says(started.err, "mpirun ends all processes when one is lost")) << started.err;
}

TEST_F(OverPeers, AJobIsCheckedByAllProcesses) {
  const CommandResult result = telar_in(folder_.path(), "train small.yaml --check --workers 2", "timeout 60");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(says(result.out, "small.yaml is valid"));
}

}  // namespace
}  // namespace telar::test
