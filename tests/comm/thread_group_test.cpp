#include "telar/comm/thread_group.h"

#include <gtest/gtest.h>

#include <thread>

#include "telar/core/error.h"

namespace telar {
namespace {

/// Calls work(group) for each member, on one thread each.
template <typename Work>
void on_members(ThreadTeam& team, int size, const Work& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back([&, rank] { work(team.member(rank)); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ThreadGroup, ShardsCoverEveryFloatOnce) {
  for (const size_t count : {0UL, 1UL, 15UL, 16UL, 17UL, 1000UL, 4096UL}) {
    for (const int size : {1, 2, 3, 7}) {
      size_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const auto [begin, end] = shard_of(count, rank, size);
        EXPECT_EQ(begin, next);
        next = end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(ThreadGroup, EveryMemberHoldsTheSumOfItsShard) {
  for (const int size : {1, 2, 3, 4}) {
    ThreadTeam team(size);
    for (int step = 0; step < 3; ++step) {  // several generations on the same exchanges
      std::vector<std::vector<float>> first(static_cast<size_t>(size));
      std::vector<std::vector<float>> second(static_cast<size_t>(size));
      on_members(team, size, [&](Group& group) {
        const auto rank = static_cast<size_t>(group.rank());
        first[rank].assign(10'000, static_cast<float>(rank + 1));
        second[rank].assign(33, static_cast<float>(10 * step));
        group.start_reduce_scatter(first[rank]);
        group.poll();
        group.start_reduce_scatter(second[rank]);
        group.finish();
        group.barrier();
      });
      const auto expected = static_cast<float>(size * (size + 1) / 2);
      for (int rank = 0; rank < size; ++rank) {
        const auto [begin, end] = shard_of(10'000, rank, size);
        for (size_t i = begin; i < end; ++i) ASSERT_EQ(first[static_cast<size_t>(rank)][i], expected);
        const auto [from, to] = shard_of(33, rank, size);
        for (size_t i = from; i < to; ++i) {
          ASSERT_EQ(second[static_cast<size_t>(rank)][i], static_cast<float>(10 * step * size));
        }
      }
    }
  }
}

TEST(ThreadGroup, AllReduceGivesEveryMemberTheWholeSum) {
  for (const int size : {1, 2, 3, 4}) {
    ThreadTeam team(size);
    for (const size_t count : {1U, 33U, 10'000U}) {
      on_members(team, size, [&](Group& group) {
        std::vector<float> mine(count);
        for (size_t i = 0; i < count; ++i) mine[i] = static_cast<float>(i) + static_cast<float>(group.rank());
        group.all_reduce(mine);
        for (size_t i = 0; i < count; ++i) {
          ASSERT_EQ(mine[i], static_cast<float>(size) * static_cast<float>(i) +
                                 static_cast<float>(size * (size - 1) / 2));
        }
      });
    }
  }
}

TEST(ThreadGroup, SumsAreTakenInRankOrder) {
  // (1e8 + −1e8) + 1 is 1 in f32; any other order gives 0.
  const std::vector<float> values{1e8F, -1e8F, 1.0F};
  ThreadTeam team(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    on_members(team, 3, [&](Group& group) {
      std::vector<float> mine(64, values[static_cast<size_t>(group.rank())]);
      group.all_reduce(mine);
      EXPECT_EQ(mine, std::vector<float>(64, 1.0F));
      EXPECT_DOUBLE_EQ(group.sum_over_shards(static_cast<double>(group.rank()) + 0.25), 3.75);
    });
  }
}

TEST(ThreadGroup, GatheredRowsAreInRankOrder) {
  ThreadTeam team(3);
  on_members(team, 3, [](Group& group) {
    std::vector<float> rows(6);
    rows[static_cast<size_t>(group.rank()) * 2] = static_cast<float>(group.rank());
    rows[static_cast<size_t>(group.rank()) * 2 + 1] = 7;
    group.all_gather(rows);
    EXPECT_EQ(rows, (std::vector<float>{0, 7, 1, 7, 2, 7}));
  });
}

TEST(ThreadGroup, AMemberThatFailsFreesTheOthersAndIsNamed) {
  ThreadTeam team(3);
  on_members(team, 3, [&](Group& group) {
    if (group.rank() == 1) {
      team.fail(1);
      return;
    }
    try {
      group.barrier();
      ADD_FAILURE() << "the barrier opened without rank 1";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("replica 1 failed"), std::string::npos) << error.what();
    }
    EXPECT_THROW(group.check(), Error);
  });
  team.reset();
  on_members(team, 3, [](Group& group) {
    group.check();
    group.barrier();
  });
}

TEST(ThreadGroup, WhatAllReachedCompletesWhoeverFailsAfterwards) {
  ThreadTeam team(2);
  std::vector<float> first(100, 1);
  std::vector<float> second(100, 3);
  team.member(0).start_reduce_scatter(first);
  team.member(1).start_reduce_scatter(second);
  team.fail(1);
  team.member(0).finish();
  const auto [begin, end] = team.member(0).shard(100);
  ASSERT_LT(begin, end);
  EXPECT_EQ(first[begin], 4);
  EXPECT_THROW(team.member(0).barrier(), Error);
}

}  // namespace
}  // namespace telar
