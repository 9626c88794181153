#include <gtest/gtest.h>

#include <thread>

#include "mpi/started.h"
#include "support/sentences.h"
#include "telar/comm/thread_group.h"

namespace telar::test {
namespace {

class Mpi : public StartedByMpi {};

/// With so many replicas in each process.
class MpiMembers : public StartedByMpi, public testing::WithParamInterface<int> {};

TEST_F(Mpi, BroadcastGivesWhatRankZeroHas) {
  std::string text = processes().rank() == 0 ? "of rank 0" : "something of another length";
  processes().broadcast(text);
  EXPECT_EQ(text, "of rank 0");
}

TEST_F(Mpi, AnyIsTrueForAllWhenItIsForOne) {
  EXPECT_TRUE(processes().any(processes().rank() == processes().size() - 1));
  EXPECT_FALSE(processes().any(false));
}

TEST_F(Mpi, TheFirstTextIsThatOfTheLowestRankThatHasOne) {
  const int rank = processes().rank();
  EXPECT_EQ(processes().first_text(rank == 0 ? "" : "of rank " + std::to_string(rank)), "of rank 1");
  EXPECT_EQ(processes().first_text(""), "");
}

TEST_F(Mpi, WhatDiffersIsNamed) {
  processes().require_same("equal", "a word");
  expect_error([] { processes().require_same(processes().rank() == 1 ? "b" : "a", "a letter"); },
               {"rank 1 differs from rank 0 in a letter"});
}

TEST_P(MpiMembers, MembersSumEveryBucketAndGatherInTheOrderOfRanks) {
  const int local = GetParam();
  ThreadTeam team(local);
  std::vector<std::unique_ptr<Group>> members;
  for (int i = 0; i < local; ++i) members.push_back(processes().join(team.member(i)));
  const int size = local * processes().size();
  std::vector<std::jthread> threads;
  for (int i = 0; i < local; ++i) {
    threads.emplace_back([&, i] {
      Group& member = *members[static_cast<size_t>(i)];
      EXPECT_EQ(member.size(), size);
      EXPECT_EQ(member.rank(), processes().rank() * local + i);
      for (const size_t count : {1U, 100U, 100'003U}) {
        std::vector<std::vector<float>> buckets;
        for (const float factor : {1.0F, 10.0F, 100.0F}) {
          buckets.emplace_back(count, factor * static_cast<float>(member.rank() + 1));
        }
        for (auto& bucket : buckets) {
          member.start_reduce_scatter(bucket);
          member.poll();
        }
        member.finish();
        const auto [begin, end] = member.shard(count);
        const auto sum = static_cast<float>(size * (size + 1) / 2);
        for (size_t at = begin; at < end; ++at) {
          ASSERT_EQ(buckets[0][at], sum) << at;
          ASSERT_EQ(buckets[2][at], 100 * sum) << at;
        }
        member.barrier();
      }
      std::vector<float> rows(static_cast<size_t>(3 * size), -1);
      for (int k = 0; k < 3; ++k) {
        rows[static_cast<size_t>(3 * member.rank() + k)] = static_cast<float>(3 * member.rank() + k);
      }
      member.all_gather(rows);
      for (size_t k = 0; k < rows.size(); ++k) ASSERT_EQ(rows[k], static_cast<float>(k));
      std::vector<float> ones(5, 1);
      member.all_reduce(ones);
      EXPECT_EQ(ones, std::vector<float>(5, static_cast<float>(size)));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, MpiMembers, testing::Values(1, 2));

}  // namespace
}  // namespace telar::test
