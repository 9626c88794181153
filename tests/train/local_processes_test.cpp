#include "telar/train/local_processes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "support/sentences.h"

namespace telar {
namespace {

using test::says;
using test::sentence_of;

/// Waits for what processes do. The time limit only ends a test that fails.
bool comes(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

class LocalProcessesTest : public ::testing::Test {
 protected:
  ChildStart shell(const std::string& name, const std::string& command) const {
    return {.name = name, .words = {"/bin/sh", "-c", command}, .environment = {}, .log = log_};
  }
  bool said(const std::string& part) {
    const std::scoped_lock lock(mutex_);
    return said_.find(part) != std::string::npos;
  }

  std::filesystem::path log_ =
      std::filesystem::temp_directory_path() / ("telar-processes-" + std::to_string(::getpid()));
  std::mutex mutex_;
  std::string said_;
  LocalProcesses processes_{[this](const std::string& text) {
    const std::scoped_lock lock(mutex_);
    said_ += text + "\n";
  }};

  void TearDown() override { std::filesystem::remove(log_); }
};

TEST_F(LocalProcessesTest, AProcessThatEndsIsRestarted) {
  processes_.start(shell("worker 3", "sleep 0.05; exit 2"));
  EXPECT_TRUE(comes([this] { return said("worker 3 is restarted"); }));
  EXPECT_TRUE(said("worker 3 has ended with exit code 2"));
  processes_.check();
}

TEST_F(LocalProcessesTest, AnIrreplaceableProcessThatEndsIsAFailure) {
  ChildStart server = shell("server 1", "kill -9 $$");
  server.irreplaceable = [] { return std::string("so the run ends"); };
  processes_.start(std::move(server));
  std::string sentence;
  EXPECT_TRUE(comes([&] {
    sentence = sentence_of([this] { processes_.check(); }, Error::Kind::run);
    return !sentence.empty();
  }));
  EXPECT_EQ(sentence, "server 1 was killed by signal 9, so the run ends");
  EXPECT_FALSE(said("restarted"));
}

}  // namespace
}  // namespace telar
