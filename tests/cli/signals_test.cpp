#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "support/paths.h"
#include "support/sentences.h"

namespace telar::test {
namespace {

namespace fs = std::filesystem;

/// Starts $1 in the background with its output in out and err, waits until file $2 is not empty, runs $3 (it
/// may use $job), and ends with the exit code of $1. A command that does not end in 60 s is killed.
constexpr const char* kScript =
    "bash -c \"$1\" >out 2>err & job=$!\n"
    "for i in $(seq 600); do [ -s \"$2\" ] && break; sleep 0.1; done\n"
    "eval \"$3\"\n"
    "( sleep 60; kill -KILL $job ) >guard & guard=$!\n"  // its sleep would keep ctest's pipe open
    "wait $job; code=$?; date +%s >to; kill $guard; exit $code\n";

class Signals : public testing::Test {
 protected:
  void SetUp() override {
    write_text(folder_ / "small.yaml",
               "model: {name: mlp, options: {hidden: [16]}}\n"
               "data: {source: synthetic, samples: 300, test_samples: 60, shape: [1, 6, 6], classes: 3}\n"
               "training: {epochs: 1000000, batch: 32}\n"
               "strategy: {threads: 1}\n");
    write_text(folder_ / "script.sh", kScript);
  }

  int run(const std::string& command, const std::string& awaited, const std::string& action) const {
    const std::string line = "cd '" + folder_.path().string() + "' && bash script.sh \"exec " + command +
                             "\" '" + awaited + "' '" + action + "' 2>/dev/null";
    const int status = std::system(line.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
    return WEXITSTATUS(status);
  }
  std::string text(const std::string& file) const { return read_text(folder_ / file); }

  const std::string telar_ = "'" + telar_program() + "' ";
  const std::string train_ = telar_ + "train small.yaml --output run";
  TempFolder folder_;
};

TEST_F(Signals, CtrlCSaysWhatItWaitsFor) {
  EXPECT_EQ(run(train_, "run/metrics.jsonl", "kill -INT $job"), 130) << text("err");
  EXPECT_TRUE(says(text("err"), "stopping after the steps that have begun, with a checkpoint"));
  EXPECT_TRUE(says(text("out"), "telar train run --resume"));
  EXPECT_EQ(run(train_ + "2 --quiet", "run2/metrics.jsonl", "kill -INT $job"), 130);
  EXPECT_EQ(text("err"), "");
}

TEST_F(Signals, ALostConnectionSavesACheckpoint) {
  EXPECT_EQ(run(train_, "run/metrics.jsonl", "kill -HUP $job"), 129) << text("err");
  EXPECT_TRUE(says(text("out"), "telar train run --resume"));
  const CommandResult resumed =
      telar_in(folder_.path(), "train run --resume --set training.epochs=1 --set training.batch=32");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

/// oneDNN's products for AVX2 use the stack pointer for a buffer of the heap.
TEST_F(Signals, ATerminationWithinAProductSpoilsNoMemory) {
  write_text(
      folder_ / "products.yaml",
      "model: {name: mlp, options: {hidden: [2048, 2048]}}\n"
      "data: {source: synthetic, samples: 100000, shape: [1, 28, 28], classes: 10, validation: 0.992}\n"
      "training: {epochs: 1, batch: 800, evaluation_batch: 100}\noutput: {log_steps: 1}\n");
  for (int i = 0; i < 5; ++i) {
    const std::string output = fmt::format("products-{}", i);
    const std::string command = telar_ + "train products.yaml --output " + output;
    EXPECT_EQ(run(command, output + "/metrics.jsonl", fmt::format("sleep 0.{}; kill -TERM $job", 3 + i % 4)),
              143)
        << text("err");
    EXPECT_TRUE(fs::exists(folder_ / output / "checkpoints/step-00000001/state.json"));
  }
}

TEST_F(Signals, ATerminationBreaksOffTheValidation) {
  // One step, then many batches for validation.
  const std::string long_validation =
      " --set data.samples=60000 --set data.validation=0.9 --set training.batch=6000 --set training.epochs=1"
      " --set training.evaluation_batch=1 --set output.log_steps=1";
  EXPECT_EQ(run(train_ + long_validation, "run/metrics.jsonl", "kill -TERM $job"), 143) << text("err");
  EXPECT_FALSE(says(text("run/metrics.jsonl"), "\"kind\":\"epoch\""));
  EXPECT_TRUE(says(text("out"), "telar train run --resume"));
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/step-00000001/state.json"));
  const CommandResult resumed =
      telar_in(folder_.path(), "train run --resume --set training.evaluation_batch=1000");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_TRUE(says(text("run/metrics.jsonl"), "\"kind\":\"epoch\""));
}

TEST_F(Signals, ATerminationBeforeTheFirstStepOfServersIsOne) {
  const std::string servers = train_ +
                              " --set strategy.name=downpour --set strategy.workers=1"
                              " --set strategy.server_addresses=[127.0.0.1:1]";
  EXPECT_EQ(run(servers, "run/job.yaml", "kill -TERM $job"), 143) << text("err");
  EXPECT_TRUE(says(text("out"), "telar train run --resume")) << text("out");
}

TEST_F(Signals, UnderNohupALostConnectionStopsNothing) {
  const std::string action = "kill -HUP $job; sleep 0.5; kill -0 $job && echo alive >still; kill -TERM $job";
  EXPECT_EQ(run("nohup " + train_, "run/metrics.jsonl", action), 143) << text("err");
  EXPECT_EQ(text("still"), "alive\n");
}

TEST_F(Signals, ClosedStreamsAreNotTakenByOtherFiles) {
  const std::string action = "for d in 1 2; do readlink /proc/$job/fd/$d; done >fds; kill -TERM $job";
  EXPECT_EQ(run(train_ + " <&- >&- 2>&-", "run/metrics.jsonl", action), 143);
  EXPECT_EQ(text("fds"), "/dev/null\n/dev/null\n");
}

TEST_F(Signals, ATrainingOutlivesItsTerminal) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  std::array<char, 128> name{};
  ASSERT_EQ(::ptsname_r(terminal, name.data(), name.size()), 0);
  std::jthread reader([&] {  // the terminal is gone once the run has written to it
    std::array<char, 64> bytes{};
    ::read(terminal, bytes.data(), bytes.size());
    ::close(terminal);
  });
  const std::string train = train_ + " --set training.epochs=30 >" + name.data() + " 2>&1";
  EXPECT_EQ(run(train, "run/metrics.jsonl", "true"), 0);
  const auto summary = nlohmann::json::parse(text("run/summary.json"));
  EXPECT_EQ(summary.at("epochs"), 30);
}

TEST_F(Signals, AServerEndsWithASnapshotWhenItsConnectionIsLost) {
  const std::string serve = telar_ + "serve --address-file address --snapshots .";
  EXPECT_EQ(run(serve, "address", "kill -HUP $job"), 129) << text("err");
  EXPECT_TRUE(says(text("err"), "ending after a last snapshot"));
  EXPECT_TRUE(says(text("out"), "ending"));
}

#ifdef TELAR_WEAVE
TEST_F(Signals, AWovenScriptIsEndedAndItsTemporaryFileRemoved) {
  fs::copy_file(weave_corpus() + "/../keras/mnist_sequential.py", folder_ / "script.py");
  fs::create_directories(folder_ / "bin");
  write_text(folder_ / "bin" / "python3",
             "#!/bin/bash\ntrap \"exit 7\" TERM\necho started >started\nwhile :; do sleep 0.1; done\n");
  fs::permissions(folder_ / "bin" / "python3", fs::perms::owner_all);
  const std::string path = "env PATH=" + (folder_ / "bin").string() + ":/usr/bin:/bin ";
  EXPECT_EQ(
      run(path + telar_ + "weave --run -n 1 --target tf-distribute script.py", "started", "kill -TERM $job"),
      7)
      << text("err");
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_FALSE(says(entry.path().string(), ".woven-"));
}
#endif

/// Trains with a server of its own, which is killed.
class SignalsWithServer : public Signals {
 protected:
  std::string with_server(const std::string& address) const {
    return train_ +
           " --set strategy.name=downpour --set strategy.workers=1 --set output.checkpoint_steps=20" +
           " --set strategy.server_addresses=[" + address + "]";
  }
};

TEST_F(SignalsWithServer, CtrlCEndsARunWhoseServerHasGone) {
  write_text(folder_ / "token", "a-long-token-of-this-test\n");
  write_text(folder_ / "serve.sh",
             telar_ +
                 "serve --address-file address --token-file token >serve.log 2>&1 & echo $! >server\n"
                 "for i in $(seq 100); do [ -s address ] && break; sleep 0.1; done\n");
  ASSERT_EQ(std::system(("cd '" + folder_.path().string() + "' && bash serve.sh").c_str()), 0);
  std::string address = text("address");
  address.pop_back();
  const std::string action =
      "for i in $(seq 300); do ls run/checkpoints/*/state.json && break; sleep 0.1; done; "
      "kill -KILL $(cat server); sleep 1; date +%s >from; kill -INT $job";
  run(with_server(address) + " --token-file token", "run/metrics.jsonl", action);
  EXPECT_LE(std::stoi(text("to")) - std::stoi(text("from")), 9);
  EXPECT_TRUE(says(text("err"), "its parameters could not be saved; the run continues from its checkpoint"));
  EXPECT_TRUE(says(text("err"), "telar train run --resume"));
}

TEST_F(SignalsWithServer, UpdatesThatAKilledServerHasLostAreReported) {
  const std::string kill_server =
      "for p in $(cat /proc/$job/task/*/children); do "
      "grep -qzx serve /proc/$p/cmdline && kill -KILL $p; done";
  const int code = run(
      train_ +
          " --set strategy.name=downpour --set strategy.workers=1 --set training.epochs=400 --set output.checkpoint_epochs=0" +
          " --set strategy.snapshot_seconds=1000",
      "run/metrics.jsonl", kill_server);
  EXPECT_EQ(code, 0) << text("err");
  EXPECT_TRUE(says(text("out"), "it was restarted and has lost "));
  EXPECT_TRUE(says(text("out"), "parameter server 0: 1 restart, "));
  const auto losses = nlohmann::json::parse(text("run/summary.json")).at("losses");
  EXPECT_EQ(losses.at("server_restarts").at(0), 1);
  EXPECT_GT(losses.at("lost_updates").at(0), 0);
  EXPECT_EQ(losses.at("lost_workers"), 0);
}

TEST_F(SignalsWithServer, AServerWhoseLogNobodyReadsServesOn) {
  write_text(folder_ / "token", "a-long-token-of-this-test\n");
  // A pipe that is full and never read, and strangers about whom the server has something to say.
  write_text(folder_ / "serve.sh",
             "mkfifo log; exec 3<>log; dd if=/dev/zero of=log bs=4096 oflag=nonblock 2>dd.err\n" + telar_ +
                 "serve --address-file address --token-file token >log & echo $! >server\n"
                 "for i in $(seq 100); do [ -s address ] && break; sleep 0.1; done\n"
                 "for i in $(seq 9); do echo stranger >/dev/tcp/127.0.0.1/$(cut -d: -f2 address); done\n"
                 "sleep 1.5; sh train.sh; echo $? >code\n"
                 "kill -TERM $(cat server); wait $(cat server); echo $? >served\n");
  write_text(folder_ / "train.sh", "exec " + with_server("$(cat address)") +
                                       " --token-file token --set training.epochs=2 >train.out 2>&1\n");
  const std::string line = "cd '" + folder_.path().string() + "' && timeout -k 1 60 bash serve.sh 2>err";
  EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 0) << text("err");
  EXPECT_TRUE(says(text("dd.err"), "unavailable")) << text("dd.err");
  EXPECT_EQ(text("code"), "0\n") << text("train.out");
  EXPECT_EQ(text("served"), "143\n");
}

TEST_F(SignalsWithServer, CtrlCEndsTheWaitForAServerThatNeverCame) {
  const std::string action = "sleep 1; date +%s >from; kill -INT $job";
  run(with_server("127.0.0.1:1"), "run/job.yaml", action);
  EXPECT_LE(std::stoi(text("to")) - std::stoi(text("from")), 3);
  EXPECT_TRUE(says(text("err"), "the run is being stopped"));
}

}  // namespace
}  // namespace telar::test
