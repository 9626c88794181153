#include "telar/device/cpu/team.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace telar {
namespace {

using cpu::OnTeam;
using cpu::Team;

/// The processors that this thread may use.
int allowed_processors() {
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  return CPU_COUNT(&set);
}

/// Threads that use all processors, at the same priority, while this object exists.
class BusyProcessors {
 public:
  BusyProcessors() {
    for (int i = 0; i < allowed_processors(); ++i) {
      threads_.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) continue;
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

TEST(Team, RunsEachPartOfEachRegionOnce) {
  Team team(4);
  for (int region = 0; region < 20000; ++region) {
    const int members = 1 + region % 4;
    std::vector<int> runs(4, 0);
    team.run(members, [&](int member, int of) {
      EXPECT_EQ(of, members);
      ++runs[static_cast<size_t>(member)];
    });
    for (int member = 0; member < 4; ++member)
      ASSERT_EQ(runs[static_cast<size_t>(member)], member < members ? 1 : 0) << "region " << region;
  }
}

TEST(Team, RunsPartsOfThreadsThatTheSystemDoesNotRun) {
  const BusyProcessors others;
  Team team(3);
  std::atomic<int> runs = 0;
  for (int region = 0; region < 300; ++region) team.run(3, [&](int, int) { ++runs; });
  EXPECT_EQ(runs, 900);
}

TEST(Team, LeavesTheAffinityOfItsThreadsAsItWas) {
  const int before = allowed_processors();
  {
    const BusyProcessors others;
    Team team(2);
    for (int region = 0; region < 300; ++region) {
      team.run(2, [&](int, int) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200);
        while (std::chrono::steady_clock::now() < until) continue;
      });
    }
    // A thread that has just been moved is bound until the one that moved it goes on, which others may delay.
    std::atomic<int> narrowed = 0;
    team.run(2, [&](int, int) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (allowed_processors() != before && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      narrowed += allowed_processors() != before ? 1 : 0;
    });
    EXPECT_EQ(narrowed, 0);
  }
  EXPECT_EQ(allowed_processors(), before);
}

TEST(Team, GivesItsThreadsAStackForSignals) {
  const auto has_one = [] {
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    return (stack.ss_flags & SS_DISABLE) == 0;
  };
  std::thread([&] {
    const OnTeam here;
    EXPECT_TRUE(has_one());
    Team team(2);
    std::atomic<int> without{0};
    for (int i = 0; i < 100; ++i) team.run(2, [&](int, int) { without += has_one() ? 0 : 1; });
    EXPECT_EQ(without, 0);
  }).join();
}

TEST(Team, WaitsInABarrierForAllMembers) {
  Team team(3);
  struct Shared {
    Team& team;
    std::atomic<int> arrived = 0;
  };
  const auto part = [](void* data) {
    auto& shared = *static_cast<Shared*>(data);
    for (int turn = 1; turn <= 3; ++turn) {
      ++shared.arrived;
      shared.team.barrier();
      EXPECT_GE(shared.arrived, 3 * turn);
      shared.team.barrier();
    }
  };
  for (int region = 0; region < 200; ++region) {
    // The workers sleep before some regions, and must be woken for all.
    if (region % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Shared shared{team};
    team.run_parts(3, part, &shared, Team::Parts::waiting);
    EXPECT_EQ(shared.arrived, 9);
  }
}

TEST(Team, RunsNoPartAgainWhenItEnds) {
  const BusyProcessors others;
  std::atomic<int> runs = 0;
  constexpr int kTeams = 3000;
  for (int i = 0; i < kTeams; ++i) {
    Team team(3);
    team.run(3, [&](int, int) { ++runs; });
  }
  EXPECT_EQ(runs, 3 * kTeams);
}

TEST(Team, RunsARegionWithinARegionAsOnePart) {
  Team team(2);
  std::atomic<int> inner = 0;
  team.run(2, [&](int, int) {
    Team::of_this_thread().run(2, [&](int member, int members) {
      EXPECT_EQ(member, 0);
      EXPECT_EQ(members, 1);
      ++inner;
    });
    EXPECT_EQ(Team::place().members, 2);
  });
  EXPECT_EQ(inner, 2);
}

TEST(Team, SleepsBetweenRegionsAndWakes) {
  Team team(2);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    std::set<int> members;
    std::mutex mutex;
    team.run(2, [&](int member, int) {
      const std::lock_guard lock(mutex);
      members.insert(member);
    });
    ASSERT_EQ(members.size(), 2U);
  }
}

TEST(Team, LeavesOtherUsersOfOpenMpAlone) {
  if (omp_get_thread_limit() < 2) GTEST_SKIP() << "OMP_THREAD_LIMIT allows only one thread";
  const OnTeam elsewhere;  // on this thread only
  const uint64_t before = Team::of_this_thread().regions();
  std::jthread([] {
    int64_t sum = 0;
    int most = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(2) reduction(+ : sum) reduction(max : most)
    for (int i = 0; i < 1000; ++i) {
      sum += i;
      most = std::max(most, omp_get_num_threads());
    }
    EXPECT_EQ(sum, 499500);
    EXPECT_EQ(most, 2);
  }).join();
  EXPECT_EQ(Team::of_this_thread().regions(), before);
}

}  // namespace
}  // namespace telar
