#include "telar/train/storage_program.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <thread>

#include "io/temp_folder.h"
#include "support/programs.h"
#include "support/sentences.h"
#include "telar/train/storage_owner.h"

namespace telar {
namespace {

using test::expect_error;
using test::says;

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class StorageTest : public testing::Test {
 protected:
  std::string place() const { return (folder_ / "place").string(); }
  fs::path source() const {
    test::write_text(folder_ / "source" / "file", "text");
    return folder_ / "source";
  }
  StorageProgram program(std::chrono::milliseconds patience = 1h) {
    return program({.of_copy = patience}, {});
  }
  StorageProgram program(StoragePatience patience, const std::function<bool()>& ends) {
    fs::create_directory(place());
    return StorageProgram(
        place(), [this](const std::string& text) { warned_ += text + "\n"; }, patience, {}, ends);
  }

  const test::TempFolder folder_;
  const test::Programs programs_{folder_.path()};
  std::string warned_;
};

TEST_F(StorageTest, ACopyThatStallsIsKilledAndTriedAgain) {
  const StorageProgram storage = program(2s);
  const std::string once = (folder_ / "once").string();
  test::write_text(once, "");
  programs_.replace("dd", "if rm " + once + "; then exec sleep 1000; fi");
  storage.put(source(), "folder");
  EXPECT_EQ(storage.read("folder/file"), "text");
  EXPECT_TRUE(says(warned_, "cp cannot write to it: it has copied nothing for 2 s, and was killed"));
  programs_.replace("dd", "exec sleep 1000");
  expect_error([&] { storage.put(source(), "folder"); }, {"it has copied nothing for 2 s"}, Error::Kind::run);
}

TEST_F(StorageTest, ASlowCopyThatGoesOnIsNotKilled) {
  const StorageProgram storage = program(2s);
  programs_.replace("dd", "for i in 1 2 3 4 5 6; do echo more; sleep 0.5; done");
  storage.put(source(), "folder");
  EXPECT_EQ(warned_, "");
}

TEST_F(StorageTest, WhenTheRunIsStoppedTheFirstCopyThatStallsIsTheLastCall) {
  std::atomic<bool> stops = false;
  const StorageProgram storage = program({.of_copy = 1h, .at_stop = 1s}, [&] { return stops.load(); });
  programs_.replace("dd", "touch " + (folder_ / "hangs").string() + "; exec sleep 1000");
  const std::jthread stop([&] {
    while (!fs::exists(folder_ / "hangs")) std::this_thread::sleep_for(1ms);
    stops = true;
  });
  expect_error([&] { storage.put(source(), "folder"); }, {"it has copied nothing for 1 s, and was killed"},
               Error::Kind::run);
  expect_error([&] { storage.write("file", "text"); }, {"it did not answer when the run was being stopped"},
               Error::Kind::run);
  EXPECT_EQ(warned_, "");
}

TEST_F(StorageTest, ARunThatGoesOnAfterAStopStoresAgain) {
  std::atomic<bool> stops = true;
  const StorageProgram storage =
      program({.of_copy = 1h, .at_stop = 1s, .all_at_stop = 2s}, [&] { return stops.load(); });
  programs_.replace("dd", "exec sleep 1000");
  expect_error([&] { storage.put(source(), "folder"); }, {"was killed"}, Error::Kind::run);
  stops = false;
  storage.write("file", "text");
  std::this_thread::sleep_for(2s);
  stops = true;
  storage.write("file", "another");
  EXPECT_EQ(storage.read("file"), "another");
}

TEST_F(StorageTest, WhenTheRunIsStoppedACopyThatGoesOnHasALimit) {
  const StorageProgram storage =
      program({.of_copy = 1h, .at_stop = 1h, .all_at_stop = 1s}, [] { return true; });
  programs_.replace("dd", "while :; do echo more; sleep 0.1; done");
  expect_error([&] { storage.put(source(), "folder"); }, {"the run has been stopped 1 s ago, and was killed"},
               Error::Kind::run);
}

TEST_F(StorageTest, ACopyThatComputesIsNotKilled) {
  const StorageProgram storage = program(1s);
  programs_.replace("sync", "exit 0");
  programs_.replace("dd", "(ulimit -t 2; while :; do :; done) 2>/dev/null");
  storage.put(source(), "folder");
  EXPECT_EQ(warned_, "");
}

TEST_F(StorageTest, WhatOthersHaveWrittenToTheSameDiskIsNotWaitedFor) {
  const StorageProgram storage = program(10s);
  programs_.replace("sync", "[ \"$1\" != -f ] || exec sleep 1000");
  storage.put(source(), "folder");
  EXPECT_EQ(storage.read("folder/file"), "text");
  EXPECT_EQ(warned_, "");
}

/// The first number in a file that another process writes.
int number_in(const fs::path& file) {
  int number = 0;
  while (!(std::ifstream(file) >> number)) std::this_thread::sleep_for(1ms);
  return number;
}

bool lives(int pid) {
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), line);
  return !line.empty() && line.find(") Z ") == std::string::npos;
}

TEST_F(StorageTest, ACopyEndsWithAProcessThatIsKilled) {
  const StorageProgram storage = program();
  const fs::path file = folder_ / "pid";
  programs_.replace("dd", "(echo $$ >" + file.string() + ".new && mv " + file.string() + ".new " +
                              file.string() + "); sleep 1000; true");
  const fs::path from = source();
  const int telar = ::fork();
  if (telar == 0) {
    try {
      storage.put(from, "folder");
    } catch (const Error&) {
    }
    ::_exit(0);
  }
  const int copy = number_in(file);
  EXPECT_TRUE(lives(copy));
  ::kill(telar, SIGKILL);
  ::waitpid(telar, nullptr, 0);
  for (int look = 0; lives(copy) && look < 1000; ++look) std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(lives(copy));
}

TEST_F(StorageTest, OfMuchThatAFailingProgramSaysTheEndIsKept) {
  const StorageProgram storage = program();
  programs_.replace("dd", "yes 'much of it' | head -n 300000 >&2; echo the store is full >&2; exit 1");
  expect_error([&] { storage.put(source(), "folder"); },
               {"has ended with exit code 1: much of it, the store is full"}, Error::Kind::run);
}

class StorageOwnerTest : public StorageTest {
 protected:
  StorageOwner::Times quick() const { return {.renewal = 10ms, .patience = 1h}; }
  StorageOwner::Times silent() const { return {.renewal = 1h, .patience = 1h}; }
  std::unique_ptr<StorageOwner> owner(StorageOwner::Times times) {
    return std::make_unique<StorageOwner>(
        program_, [](const std::string& text) { ADD_FAILURE() << text; }, times);
  }
  std::function<void(const std::string&)> say() {
    return [this](const std::string& text) { said_ += text + "\n"; };
  }
  /// Without one that is being written.
  std::string owners() const {
    std::string all;
    for (const std::string& name : program_.list())
      if (!name.ends_with(".tmp")) all += name.substr(0, 14) + " ";
    return all;
  }

  const StorageProgram program_ = program();
  std::string said_;
};

TEST_F(StorageOwnerTest, OneThatLivesKeepsOthersOut) {
  const auto first = owner(quick());
  first->claim(say());
  const auto second = owner(quick());
  expect_error([&] { second->claim(say()); }, {"stores the run here", "--storage"}, Error::Kind::run);
  EXPECT_TRUE(says(said_, "it is watched for up to 3600 s"));
  first->check();
  EXPECT_EQ(owners(), "owner-00000001 ");
}

TEST_F(StorageOwnerTest, OneThatHasEndedOrIsGoneIsFollowedAtOnce) {
  owner(silent())->claim(say());
  owner(silent())->claim(say());
  EXPECT_EQ(owners(), "owner-00000002 ");
  const int gone = ::fork();
  if (gone == 0) {
    owner(silent()).release()->claim(say());
    ::_exit(0);
  }
  ::waitpid(gone, nullptr, 0);
  EXPECT_EQ(owners(), "owner-00000003 ");
  owner(silent())->claim(say());
  EXPECT_EQ(owners(), "owner-00000004 ");
  EXPECT_EQ(said_, "");
}

TEST_F(StorageOwnerTest, OfTwoThatWatchTheSameOneIsRefused) {
  for (int round = 0; round < 8; ++round) {  // whose name is the greater is drawn each time
    fs::remove_all(place());
    fs::create_directory(place());
    test::write_text(place() + "/owner-00000001-0123456789abcdef", "host9 12 ? 3\n");
    const auto first = owner({.renewal = 10ms, .patience = 0ms});
    const auto second = owner(quick());
    const auto claims_meanwhile = [&](const std::string& /*text*/) {
      if (first->name().empty()) first->claim(say());
    };
    expect_error([&] { second->claim(claims_meanwhile); }, {"stores the run here"}, Error::Kind::run);
    first->check();
    EXPECT_EQ(owners(), "owner-00000002 ");
  }
}

TEST_F(StorageOwnerTest, OneThatWritesItsNameAtTheSameMomentIsWatched) {
  for (const char digit : {'0', 'f'}) {  // its name is the smaller one, or the greater one
    const std::string other = place() + "/owner-00000001-" + std::string(16, digit);
    const std::string once = (folder_ / "once").string();
    test::write_text(once, "");
    programs_.replace("mv", "if rm " + once + "; then echo host9 12 '?' 3 >" + other + "; fi 2>/dev/null");
    auto mine = owner({.renewal = 10ms, .patience = 50ms});
    said_ = "";
    mine->claim(say());
    EXPECT_TRUE(says(said_, "process 12 on host9 stored the run"));
    EXPECT_EQ(owners(), "owner-00000002 ") << "its own of number 1 is gone";
    mine.reset();
    programs_.replace("mv", "");
    fs::remove_all(place());
    fs::create_directory(place());
  }
}

TEST_F(StorageOwnerTest, OneThatIsSilentLosesItAndLearnsIt) {
  const auto first = owner(silent());
  first->claim(say());
  const auto second = owner({.renewal = 10ms, .patience = 50ms});
  second->claim(say());
  EXPECT_EQ(owners(), "owner-00000002 ");
  first->require();
  expect_error([&] { first->check(); }, {"stores the run here, so this process ("});
  expect_error([&] { first->require(); }, {"stores the run here"});
  second->check();
}

TEST_F(StorageOwnerTest, ASuccessorHasAFileAtOnceAndRemovesTheOther) {
  const auto first = owner(silent());
  first->claim(say());
  const auto heir = owner(silent());
  heir->succeed(first->name(), 1);
  for (int i = 0; i < 20'000 && owners() != "owner-00000003 "; ++i) std::this_thread::sleep_for(1ms);
  expect_error([&] { first->check(); }, {"stores the run here, so this process ("});
  heir->check();
}

TEST_F(StorageOwnerTest, ARenewalLearnsItByItself) {
  const auto first = owner(quick());
  first->claim(say());
  test::write_text(place() + "/owner-00000007-0123456789abcdef", "host9 12 ? 3\n");
  EXPECT_TRUE(says(test::sentence_of([&] {
                     for (;; std::this_thread::sleep_for(1ms)) first->require();
                   }),
                   "process 12 on host9 stores the run here"));
}

}  // namespace
}  // namespace telar
