#include "telar/observe/stop_request.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "telar/core/error.h"

namespace telar {
namespace {

TEST(StopRequest, TheFirstSignalRaisesItAndTheProcessContinues) {
  const StopRequest stop;
  EXPECT_FALSE(stop.requested());
  ::raise(SIGINT);
  EXPECT_TRUE(stop.requested());
  EXPECT_EQ(stop.signal_number(), SIGINT);
}

TEST(StopRequest, AlsoHandlesTermination) {
  const StopRequest stop;
  ::raise(SIGTERM);
  EXPECT_EQ(stop.signal_number(), SIGTERM);
}

struct Ended {
  int status = 0;
  std::string err;
};

/// Runs `work` in a child process and returns how it ended, and what it wrote to standard error.
Ended in_child(const std::function<void()>& work) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], STDERR_FILENO);
    work();
    ::_exit(0);
  }
  ::close(pipe[1]);
  Ended ended;
  std::array<char, 256> bytes{};
  for (ssize_t count = 0; (count = ::read(pipe[0], bytes.data(), bytes.size())) > 0;)
    ended.err.append(bytes.data(), static_cast<size_t>(count));
  ::close(pipe[0]);
  ::waitpid(child, &ended.status, 0);
  return ended;
}

/// Longer than two signals may be apart that report one event.
void wait_for_another_event() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }

TEST(StopRequest, ASecondSignalEndsTheProcessAndSaysSo) {
  for (const int number : {SIGINT, SIGTERM}) {
    const Ended ended = in_child([number] {
      const StopRequest stop({"waiting for the step\n", "quitting at once\n"});
      ::raise(number);
      wait_for_another_event();
      ::raise(number);
      wait_for_another_event();  // the thread sanitizer delivers signals late
    });
    ASSERT_TRUE(WIFSIGNALED(ended.status)) << number;
    EXPECT_EQ(WTERMSIG(ended.status), number);
    EXPECT_EQ(ended.err, "waiting for the step\nquitting at once\n");
  }
}

TEST(StopRequest, ASignalThatIsRepeatedAtOnceIsOneEvent) {
  for (const int number : {SIGINT, SIGTERM}) {
    const Ended ended = in_child([number] {  // as Slurm does when it preempts a job
      const StopRequest stop({"waiting for the step\n", "quitting at once\n"});
      for (int i = 0; i < 3; ++i) ::raise(number);
      if (stop.signal_number() != number) ::_exit(1);
    });
    EXPECT_EQ(ended.status, 0) << number;
    EXPECT_EQ(ended.err, "waiting for the step\n");
  }
}

TEST(StopRequest, ASecondSignalEndsStartedProcessesToo) {
  std::array<int, 2> alive{};
  ASSERT_EQ(::pipe(alive.data()), 0);
  const Ended ended = in_child([&] {
    const pid_t started = ::fork();
    if (started == 0) {
      ::setpgid(0, 0);
      ::close(STDERR_FILENO);
      ::pause();
    }
    ::setpgid(started, started);
    const StopRequest stop;
    const EndsWithThisProcess group(started);
    { const EndsWithThisProcess ended_before(started + 1'000'000); }
    ::raise(SIGINT);
    wait_for_another_event();
    ::raise(SIGINT);
  });
  EXPECT_TRUE(WIFSIGNALED(ended.status));
  ::close(alive[1]);
  // Only the started process still holds the pipe's other end.
  char byte = 0;
  pollfd end{alive[0], POLLIN, 0};
  EXPECT_EQ(::poll(&end, 1, 10'000), 1) << "the started process lives";
  EXPECT_EQ(::read(alive[0], &byte, 1), 0);
  ::close(alive[0]);
}

TEST(StopRequest, ALostTerminalStopsTheRunHoweverOftenItIsReported) {
  const Ended ended = in_child([] {
    const StopRequest stop({"waiting for the step\n", "quitting at once\n"});
    ::raise(SIGHUP);
    ::raise(SIGHUP);
    ::raise(SIGTERM);  // as by mpirun, which has lost its terminal, too
    if (stop.signal_number() != SIGHUP) ::_exit(1);
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "waiting for the step\n");
}

TEST(StopRequest, ASignalOfAnotherKindEndsTheProcessLater) {
  const Ended ended = in_child([] {
    const StopRequest stop({"waiting for the step\n", "quitting at once\n"});
    ::raise(SIGINT);
    wait_for_another_event();
    ::raise(SIGTERM);
  });
  ASSERT_TRUE(WIFSIGNALED(ended.status));
  EXPECT_EQ(WTERMSIG(ended.status), SIGTERM);
  EXPECT_EQ(ended.err, "waiting for the step\nquitting at once\n");
}

TEST(StopRequest, ALostTerminalStaysIgnoredUnderNohupButCtrlCDoesNot) {
  const Ended ended = in_child([] {
    std::signal(SIGHUP, SIG_IGN);  // as by nohup
    std::signal(SIGINT, SIG_IGN);  // as by a script that starts a job in the background
    const StopRequest stop;
    ::raise(SIGHUP);
    if (stop.requested()) ::_exit(1);
    ::raise(SIGINT);
    if (stop.signal_number() != SIGINT) ::_exit(2);
  });
  EXPECT_EQ(ended.status, 0);
}

TEST(StopRequest, AClosedPipeDoesNotEndTheProcess) {
  const Ended ended = in_child([] {
    const StopRequest stop;
    ::raise(SIGPIPE);
    if (stop.requested()) ::_exit(1);
  });
  EXPECT_EQ(ended.status, 0);
}

TEST(StopRequest, HandlesSignalsOnTheStackThatAThreadHasForThem) {
  const StopRequest stop;
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    EXPECT_NE(now.sa_flags & SA_ONSTACK, 0);
  }
}

TEST(StopRequest, RestoresTheFormerHandlers) {
  std::signal(SIGINT, SIG_IGN);
  { const StopRequest stop; }
  EXPECT_EQ(std::signal(SIGINT, SIG_DFL), SIG_IGN);
}

TEST(StopRequest, IsResetEachTimeAndUnique) {
  {
    const StopRequest stop;
    ::raise(SIGINT);
  }
  const StopRequest stop;
  EXPECT_FALSE(stop.requested());
  EXPECT_THROW(StopRequest(), Error);
}

}  // namespace
}  // namespace telar
