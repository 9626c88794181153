#include "telar/core/waiting.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace telar {
namespace {

TEST(Waiting, ProcessorTimeAdvancesWhileAThreadRuns) {
  const int64_t before = processor_time(thread_id());
  ASSERT_GE(before, 0);
  while (processor_time(thread_id()) == before) continue;
  EXPECT_GT(processor_time(thread_id()), before);
}

TEST(Waiting, ProcessorTimeStandsStillWhileAThreadSleeps) {
  std::atomic<int32_t> sleeper = 0;
  std::atomic<bool> woken = false;
  std::thread thread([&] {
    sleeper = thread_id();
    woken.wait(false);
  });
  while (sleeper == 0) std::this_thread::yield();
  // The thread falls asleep within some milliseconds.
  int64_t before = -1;
  while (before != processor_time(sleeper)) {
    before = processor_time(sleeper);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(processor_time(sleeper), before);
  woken = true;
  woken.notify_one();
  thread.join();
  // The kernel forgets a joined thread within some milliseconds.
  for (int waits = 0; processor_time(sleeper) != -1 && waits < 2000; ++waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(processor_time(sleeper), -1);
}

TEST(Waiting, UnknownThreadsHaveNoProcessorTime) {
  EXPECT_EQ(processor_time(0), -1);
  EXPECT_EQ(processor_time(-1), -1);
  EXPECT_EQ(processor_time(1), -1);  // a thread of another process
}

TEST(Waiting, AThreadThatWasMovedMayRunWhereItCouldBefore) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  move_to_this_processor(thread_id());
  move_to_this_processor(-1);
  leave_this_processor();
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Waiting, SpinningEndsWithTheConditionOrTheTime) {
  int calls = 0;
  EXPECT_TRUE(spin_until([&] { return ++calls == 3; }, std::chrono::microseconds(1'000'000)));
  EXPECT_EQ(calls, 3);
  EXPECT_FALSE(spin_until([] { return false; }, std::chrono::microseconds(10)));
}

}  // namespace
}  // namespace telar
