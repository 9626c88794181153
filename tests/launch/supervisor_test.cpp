#include "telar/launch/supervisor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "telar/core/error.h"

namespace telar {
namespace {

/// Processes that do what a test says, in no time.
class FakeEngine final : public LaunchEngine {
 public:
  struct Started {
    LaunchSlot slot;
    std::vector<std::string> words;
    bool stopped = false;
    bool killed = false;
    bool ended = false;
  };

  std::vector<LaunchSlot> slots() override { return places; }
  int start(const LaunchSlot& slot, const LaunchCommand& command) override {
    if (starts_nothing) throw Error(*starts_nothing, "no process could be made");
    started.push_back({.slot = slot, .words = command.words});
    return static_cast<int>(started.size()) - 1;
  }
  std::vector<LaunchEvent> poll() override { return std::exchange(events_, {}); }
  void stop(int process, bool at_once) override {
    (at_once ? one(process).killed : one(process).stopped) = true;
    if (at_once) ends(process, 137);
  }

  void says(int process, const std::string& line) {
    events_.push_back({.process = process, .line = line, .ended = {}});
  }
  void ends(int process, int code, bool host_lost = false) {
    one(process).ended = true;
    events_.push_back({.process = process, .ended = LaunchEnding{code, host_lost}});
  }
  Started& one(int process) { return started.at(static_cast<size_t>(process)); }

  std::vector<LaunchSlot> places = {
      {"a", "10.0.0.1"}, {"b", "10.0.0.2"}, {"c", "10.0.0.3"}, {"d", "10.0.0.4"}};
  std::vector<Started> started;
  std::optional<Error::Kind> starts_nothing;

 private:
  std::vector<LaunchEvent> events_;
};

class SupervisorTest : public testing::Test {
 protected:
  Supervisor& begin(int processes, bool elastic = false, int least = 1) {
    return begin({.processes = processes, .elastic = elastic, .least = least});
  }
  /// Workers of parameter servers, two of each: 0 and 1 are the servers, 2 is the first process, 3 and 4 are
  /// the workers. It has made a step.
  void begin_with_servers(bool copies) {
    begin({.processes = 2, .workers = true, .servers = 2, .copies = copies});
    start_with_servers(0);
  }
  void start_with_servers(int at) {
    advance(3);
    ASSERT_EQ(engine_.started.size(), at + 2);
    engine_.says(at + 1, "@address 0.0.0.0:71");
    advance(1);
    ASSERT_EQ(engine_.started.size(), at + 2);  // all servers are waited for
    engine_.says(at, "@address 0.0.0.0:70");
    advance(1);
    ASSERT_EQ(engine_.started.size(), at + 3);
    engine_.says(at + 2, "@address 0.0.0.0:4711");
    advance(1);
    ASSERT_EQ(engine_.started.size(), at + 5);
    engine_.says(at + 2, "@step " + std::to_string(1 + at));
    advance(1);
  }
  Supervisor& begin(const LaunchPlan& plan) {
    supervisor_.emplace(
        engine_,
        LaunchPlan{
            .processes = plan.processes,
            .elastic = plan.elastic,
            .workers = plan.workers,
            .servers = plan.servers,
            .copies = plan.copies,
            .restarts = 2,
            .least = plan.least,
            .first =
                [](int count, bool resume, const std::vector<std::string>& servers) {
                  LaunchCommand command{{"train", std::to_string(count), resume ? "again" : "new"}, {}};
                  command.words.insert(command.words.end(), servers.begin(), servers.end());
                  return command;
                },
            .other =
                [](const std::string& address) {
                  return LaunchCommand{{"work", address}, {}};
                },
            .server =
                [](int server, int port) {
                  return LaunchCommand{{"serve", std::to_string(server), std::to_string(port)}, {}};
                },
            .say = [this](const std::string& text) { said_ += text + "\n"; },
            .show = [this](const std::string& text) { shown_ += text + "\n"; }});
    return *supervisor_;
  }
  std::optional<int> advance(double seconds) {
    std::optional<int> over;
    for (const double end = now_ + seconds; !over && now_ < end; now_ += 0.1)
      over = supervisor_->advance(now_);
    return over;
  }
  /// Starts the run anew until its first process has said where the others join and made a step.
  int start_of_run(int64_t step) {
    const auto first = static_cast<int>(engine_.started.size());
    advance(40);
    EXPECT_EQ(engine_.started.size(), static_cast<size_t>(first) + 1);
    engine_.says(first, "@address 0.0.0.0:4711");
    engine_.says(first, "@step " + std::to_string(step));
    advance(1);
    return first;
  }
  /// All processes that still run end with this code.
  void end_all(int code) {
    for (int i = 0; i < static_cast<int>(engine_.started.size()); ++i)
      if (!engine_.one(i).ended) engine_.ends(i, code);
  }
  bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }

  FakeEngine engine_;
  std::optional<Supervisor> supervisor_;
  double now_ = 0;
  std::string said_;
  std::string shown_;
};

TEST_F(SupervisorTest, TheOthersJoinWhereTheFirstIsReachedAndTheRunEndsWithItsCode) {
  begin(3);
  EXPECT_EQ(start_of_run(1), 0);
  ASSERT_EQ(engine_.started.size(), 3);
  EXPECT_EQ(engine_.one(0).words, (std::vector<std::string>{"train", "3", "new"}));
  EXPECT_EQ(engine_.one(2).words, (std::vector<std::string>{"work", "10.0.0.1:4711"}));
  EXPECT_EQ(engine_.one(2).slot.host, "c");
  engine_.says(0, "epoch 1");
  engine_.says(1, "joined");
  EXPECT_EQ(advance(1), std::nullopt);
  EXPECT_EQ(shown_, "epoch 1\n");
  end_all(0);
  EXPECT_EQ(advance(1), 0);
  EXPECT_EQ(said_, "");
}

TEST_F(SupervisorTest, MoreProcessesThanPlacesAreRefused) {
  EXPECT_THROW(begin(5), Error);
  EXPECT_THROW(begin(6, true, 5), Error);
}

TEST_F(SupervisorTest, AnElasticRunBeginsInThePlacesThatThereAre) {
  begin(5, true, 2);
  advance(1);
  EXPECT_EQ(engine_.one(0).words.at(1), "4");
  EXPECT_TRUE(said("the run goes on with 4 of 5 processes"));
}

TEST_F(SupervisorTest, AKilledProcessLeadsToAnotherStartThatResumes) {
  begin(2);
  start_of_run(1);
  engine_.ends(1, 137);
  engine_.ends(0, 1);  // it has noticed
  EXPECT_EQ(start_of_run(50), 2);
  EXPECT_EQ(engine_.one(2).words, (std::vector<std::string>{"train", "2", "again"}));
  EXPECT_TRUE(said("a process on b was killed by signal 9")) << said_;
  end_all(0);
  EXPECT_EQ(advance(1), 0);
}

TEST_F(SupervisorTest, WhoSaysWhereOthersJoinHasTakenOverFromTheFirst) {
  begin(3, true);
  start_of_run(1);
  engine_.ends(0, 137);
  advance(1);
  EXPECT_EQ(engine_.started.size(), 3);  // nobody knows yet where another one would join
  engine_.says(1, "@address 0.0.0.0:4712");
  engine_.says(1, "epoch 2");
  EXPECT_EQ(advance(100), std::nullopt);
  ASSERT_EQ(engine_.started.size(), 4);
  EXPECT_EQ(engine_.one(3).words, (std::vector<std::string>{"work", "10.0.0.2:4712"}));
  EXPECT_EQ(engine_.one(3).slot.host, "a");
  EXPECT_FALSE(engine_.one(1).stopped);
  EXPECT_EQ(shown_, "epoch 2\n");
  supervisor_->stop(15);
  advance(1);
  EXPECT_TRUE(engine_.one(1).stopped);
  end_all(143);
  EXPECT_EQ(advance(1), 143);
}

TEST_F(SupervisorTest, AHostThatIsFoundLostAfterTheRunHasEndedIsADeathAndNoFailure) {
  begin(2);
  start_of_run(1);
  engine_.ends(0, 1);  // it has noticed before the engine
  advance(3);
  engine_.ends(1, 0, true);  // as srun says it
  engine_.ends(start_of_run(50), 0, true);
  end_all(1);
  start_of_run(90);
  EXPECT_TRUE(said("a process on b is lost with its host")) << said_;
  EXPECT_FALSE(said("(restart ")) << said_;
}

TEST_F(SupervisorTest, DeathsWithoutALaterCheckpointEndTheRun) {
  begin(1);
  for (const int64_t step : {1, 1, 7, 7, 7, 7}) {
    const int first = start_of_run(step);
    engine_.ends(first, 139);
    ASSERT_EQ(advance(0.5), std::nullopt) << said_;
  }
  engine_.ends(start_of_run(7), 139);
  EXPECT_EQ(advance(1), 1);
  EXPECT_TRUE(said("5 times in a row")) << said_;
  EXPECT_TRUE(said("went back to step 6")) << said_;
}

TEST_F(SupervisorTest, AFailureIsRepeatedAsOftenAsItMayBeAndAMistakeNever) {
  begin(1);
  for (int start = 0; start < 2; ++start) {
    engine_.ends(start_of_run(1), 1);
    EXPECT_EQ(advance(0.5), std::nullopt);
  }
  EXPECT_TRUE(said("(restart 2 of 2)")) << said_;
  engine_.ends(start_of_run(1), 1);
  EXPECT_EQ(advance(0.5), 1);

  begin(1);
  engine_.ends(start_of_run(1), 2);
  EXPECT_EQ(advance(0.5), 2);
}

TEST_F(SupervisorTest, AMistakeOfAnotherProcessEndsTheRunWithItsCode) {
  begin(2);
  advance(1);
  engine_.says(0, "@address 0.0.0.0:4711");
  advance(1);
  engine_.ends(1, 127);  // no program there: the first would wait for ever
  advance(6);
  EXPECT_TRUE(engine_.one(0).stopped);
  engine_.ends(0, 143);
  EXPECT_EQ(advance(1), 127);
}

TEST_F(SupervisorTest, AStoppedRunEndsResumably) {
  begin(2);
  start_of_run(1);
  end_all(143);
  EXPECT_EQ(advance(1), 143);

  begin(2);
  const int first = start_of_run(1);
  supervisor_->stop(2);
  EXPECT_EQ(advance(1), std::nullopt);
  EXPECT_TRUE(engine_.one(first).stopped);
  EXPECT_FALSE(engine_.one(first + 1).stopped);
  end_all(143);
  EXPECT_EQ(advance(1), 130);
}

TEST_F(SupervisorTest, AStoppedRunThatIsNotStoredIsNoMistake) {
  begin(2);
  start_of_run(1);
  supervisor_->stop(15);
  end_all(75);
  EXPECT_EQ(advance(1), 75);

  begin(2);
  start_of_run(1);
  end_all(75);
  EXPECT_EQ(advance(1), 75);
}

TEST_F(SupervisorTest, WhatDoesNotEndIsKilled) {
  begin(2);
  start_of_run(1);
  supervisor_->stop(15);
  advance(299);
  EXPECT_FALSE(engine_.one(0).killed);
  advance(2);
  EXPECT_TRUE(engine_.one(0).killed);
  advance(6);
  EXPECT_TRUE(engine_.one(1).stopped);
  EXPECT_EQ(advance(301), 143);
}

TEST_F(SupervisorTest, AnElasticRunGetsAnotherProcessOnAnotherHost) {
  begin(2, true);
  start_of_run(1);
  engine_.ends(1, 255, true);
  advance(65);
  ASSERT_EQ(engine_.started.size(), 3);
  EXPECT_EQ(engine_.one(2).slot.host, "c");
  EXPECT_EQ(engine_.one(2).words, (std::vector<std::string>{"work", "10.0.0.1:4711"}));
  EXPECT_FALSE(engine_.one(0).stopped);
  end_all(1);  // of another cause, long after
  start_of_run(1);
  EXPECT_TRUE(said("(restart 1 of 2)")) << said_;
}

TEST_F(SupervisorTest, AnElasticRunThatEndsWithALossIsStartedAgainAndHasNotFailed) {
  begin(2, true);
  for (const int code : {1, 75, 143}) {
    const int first = start_of_run(1);
    engine_.ends(first + 1, 255);
    advance(3);  // another process has been started
    end_all(code);
  }
  start_of_run(100);
  EXPECT_FALSE(said("restart 1")) << said_;
  end_all(0);
  EXPECT_EQ(advance(1), 0);
}

TEST_F(SupervisorTest, ALostHostIsTriedAgainWhereTheRunNeedsItsPlaces) {
  begin(4, false, 4);
  start_of_run(1);
  engine_.ends(3, 255, true);
  end_all(1);
  const int first = start_of_run(2);
  EXPECT_EQ(engine_.one(first).words, (std::vector<std::string>{"train", "4", "again"}));
}

TEST_F(SupervisorTest, AnElasticRunGoesOnWithoutAProcessThatIsLostAgainAndAgain) {
  begin(2, true);
  start_of_run(1);
  for (int lost = 1; lost <= 5; ++lost) {
    engine_.ends(lost, 137);
    advance(7);
  }
  EXPECT_EQ(engine_.started.size(), 6);
  EXPECT_TRUE(said("none takes their place")) << said_;
  EXPECT_FALSE(engine_.one(0).stopped);
}

TEST_F(SupervisorTest, AnElasticRunGoesOnWithoutAProcessThatCannotBeStarted) {
  begin(3, true);
  start_of_run(1);
  engine_.starts_nothing = Error::Kind::run;
  engine_.ends(1, 137);
  EXPECT_EQ(advance(100), std::nullopt);
  EXPECT_TRUE(said("no process could be made")) << said_;
  EXPECT_TRUE(said("the run goes on without it")) << said_;
  EXPECT_FALSE(engine_.one(0).stopped);
  end_all(0);
  EXPECT_EQ(advance(1), 0);
}

TEST_F(SupervisorTest, ARunThatCannotBeStartedAgainIsTriedLater) {
  begin(2);
  start_of_run(1);
  engine_.starts_nothing = Error::Kind::run;
  engine_.ends(1, 137);
  engine_.ends(0, 1);
  EXPECT_EQ(advance(2.5), std::nullopt);
  engine_.starts_nothing.reset();
  start_of_run(9);
  EXPECT_EQ(engine_.one(2).words, (std::vector<std::string>{"train", "2", "again"}));
  end_all(0);
  EXPECT_EQ(advance(1), 0);
}

TEST_F(SupervisorTest, ARunWhoseProcessesNeverStartEnds) {
  engine_.starts_nothing = Error::Kind::run;
  begin(2);
  EXPECT_EQ(advance(60), 1);
  EXPECT_TRUE(said("5 times in a row")) << said_;
}

TEST_F(SupervisorTest, AProgramThatIsNotThereIsTriedOnce) {
  engine_.starts_nothing = Error::Kind::user;
  begin(2);
  EXPECT_EQ(advance(1), 2);
}

TEST_F(SupervisorTest, AnElasticRunReplacesAProcessThatWasGivenUpButNotOneThatCannotTakePart) {
  for (const auto& [code, started] : {std::pair{1, 4U}, {2, 3U}}) {
    begin(3, true);
    start_of_run(1);
    engine_.ends(1, code);
    advance(100);
    EXPECT_EQ(engine_.started.size(), started);
    EXPECT_FALSE(engine_.one(0).stopped);
    end_all(0);
    EXPECT_EQ(advance(1), 0);
    engine_ = {};
  }
}

TEST_F(SupervisorTest, ALostHostIsLeftOutUntilNoOtherIsLeft) {
  engine_.places.resize(2);
  begin(2);
  start_of_run(1);
  engine_.ends(1, 255, true);
  engine_.ends(0, 1);
  const int second = start_of_run(9);
  EXPECT_EQ(engine_.one(second).words, (std::vector<std::string>{"train", "1", "again"}));
  EXPECT_TRUE(said("with 1 of 2 processes")) << said_;
  engine_.ends(second, 255, true);
  const int third = start_of_run(20);
  EXPECT_EQ(engine_.one(third).words, (std::vector<std::string>{"train", "2", "again"}));
}

TEST_F(SupervisorTest, ServersComeFirstAndWorkersJoinWhereTheFirstProcessIs) {
  begin_with_servers(false);
  EXPECT_EQ(engine_.one(0).words, (std::vector<std::string>{"serve", "0", "0"}));
  EXPECT_EQ(engine_.one(1).slot.host, "b");
  EXPECT_EQ(engine_.one(2).words,
            (std::vector<std::string>{"train", "2", "new", "10.0.0.1:70", "10.0.0.2:71"}));
  EXPECT_EQ(engine_.one(2).slot.host, "a");
  EXPECT_EQ(engine_.one(3).words, (std::vector<std::string>{"work", "10.0.0.1:4711"}));
  EXPECT_EQ(engine_.one(3).slot.host, "a");
  EXPECT_EQ(engine_.one(4).slot.host, "b");
  for (const int process : {2, 3, 4}) engine_.ends(process, 0);
  EXPECT_EQ(advance(1), std::nullopt);
  EXPECT_TRUE(engine_.one(0).stopped);
  for (const int server : {0, 1}) engine_.ends(server, 143);
  EXPECT_EQ(advance(1), 0);
  EXPECT_EQ(said_, "");
}

TEST_F(SupervisorTest, AServerIsStartedAgainWhereItWasAndAWorkerAnywhere) {
  begin_with_servers(false);
  engine_.ends(1, 137);
  advance(1);
  ASSERT_EQ(engine_.started.size(), 6);
  EXPECT_EQ(engine_.one(5).words, (std::vector<std::string>{"serve", "1", "71"}));
  EXPECT_EQ(engine_.one(5).slot.host, "b");
  engine_.ends(4, 137, true);
  advance(1);
  ASSERT_EQ(engine_.started.size(), 7);
  EXPECT_EQ(engine_.one(6).words, (std::vector<std::string>{"work", "10.0.0.1:4711"}));
  EXPECT_EQ(engine_.one(6).slot.host, "c");
  EXPECT_FALSE(engine_.one(2).stopped);
  EXPECT_TRUE(said("parameter server 1, on b, was killed by signal 9")) << said_;
  end_all(0);
  EXPECT_EQ(advance(1), 0);
}

TEST_F(SupervisorTest, ALostHostOfAServerLeadsToAnotherStartUnlessThereAreCopies) {
  begin_with_servers(true);
  engine_.ends(1, 255, true);
  advance(30);
  EXPECT_EQ(engine_.started.size(), 5);
  EXPECT_FALSE(engine_.one(2).stopped);
  EXPECT_TRUE(said("goes on with the copies")) << said_;
  engine_.ends(0, 255, true);
  advance(1);
  engine_.ends(2, 1);  // no copy is left, says the first process
  end_all(143);
  start_with_servers(5);
  EXPECT_EQ(engine_.one(5).slot.host, "c");
  EXPECT_FALSE(said("restart 1")) << said_;

  engine_ = {};
  begin_with_servers(false);
  engine_.ends(1, 255, true);
  advance(1);
  EXPECT_TRUE(engine_.one(2).stopped);
  engine_.ends(2, 1);
  advance(1);
  end_all(143);
  start_with_servers(5);
  EXPECT_EQ(engine_.one(7).words,
            (std::vector<std::string>{"train", "2", "again", "10.0.0.1:70", "10.0.0.3:71"}));
}

TEST_F(SupervisorTest, ALostFirstProcessOfWorkersLeadsToAnotherStartAtOnce) {
  begin_with_servers(false);
  engine_.ends(2, 137);
  advance(1);
  for (const int process : {0, 1, 3, 4}) EXPECT_TRUE(engine_.one(process).stopped);
  end_all(143);
  start_with_servers(5);
  EXPECT_FALSE(said("restart 1")) << said_;
}

TEST_F(SupervisorTest, AServerThatFindsAMistakeEndsTheRun) {
  begin({.processes = 2, .workers = true, .servers = 2});
  advance(1);
  engine_.ends(0, 2);
  advance(1);
  EXPECT_TRUE(engine_.one(1).stopped);
  engine_.ends(1, 143);
  EXPECT_EQ(advance(1), 2);
}

TEST_F(SupervisorTest, AServerWhosePortIsTakenIsStartedOnceMore) {
  begin_with_servers(true);
  engine_.ends(1, 137);
  advance(1);
  ASSERT_EQ(engine_.started.size(), 6);
  engine_.ends(5, 2);
  advance(2);
  ASSERT_EQ(engine_.started.size(), 7);
  EXPECT_EQ(engine_.one(6).words, (std::vector<std::string>{"serve", "1", "71"}));
  EXPECT_FALSE(engine_.one(2).stopped);
}

TEST_F(SupervisorTest, ARunThatHasNoWorkerAndGetsNoneEnds) {
  begin_with_servers(false);
  engine_.ends(3, 2);
  advance(1);
  EXPECT_FALSE(engine_.one(2).stopped);
  int worker = 4;
  for (int death = 0; death < 5; ++death) {
    engine_.ends(worker, 1);
    worker = static_cast<int>(engine_.started.size());
    advance(2);
  }
  EXPECT_EQ(engine_.started.size(), 9);
  EXPECT_TRUE(engine_.one(2).stopped);
  engine_.ends(2, 143);
  advance(1);
  end_all(143);
  start_with_servers(9);
  EXPECT_TRUE(said("(restart 1 of 2)")) << said_;
}

TEST_F(SupervisorTest, AStoppedRunKeepsItsServersUntilItHasEnded) {
  begin_with_servers(false);
  supervisor_->stop(15);
  advance(1);
  EXPECT_TRUE(engine_.one(2).stopped);
  EXPECT_FALSE(engine_.one(0).stopped);
  engine_.ends(2, 143);
  advance(1);
  EXPECT_TRUE(engine_.one(0).stopped);
  end_all(143);
  EXPECT_EQ(advance(1), 143);

  engine_ = {};
  begin({.processes = 2, .workers = true, .servers = 1});
  advance(1);
  supervisor_->stop(2);
  advance(1);
  EXPECT_TRUE(engine_.one(0).stopped);
  engine_.ends(0, 143);
  EXPECT_EQ(advance(1), 130);
}

}  // namespace
}  // namespace telar
