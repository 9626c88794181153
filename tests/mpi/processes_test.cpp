#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "io/temp_folder.h"
#include "mpi/started.h"
#include "support/sentences.h"
#include "telar/comm/thread_group.h"
#include "telar/runtime/communication_time.h"
#include "telar/train/job_reader.h"
#include "telar/train/job_stream.h"

namespace telar::test {
namespace {

class Mpi : public StartedTogether {};

/// Parameters: the number of replicas in each process, and whether processes sum in shared memory or by
/// messages.
class MpiMembers : public StartedTogether, public testing::WithParamInterface<std::tuple<int, bool>> {
 protected:
  void SetUp() override {
    StartedTogether::SetUp();
    if (started_together()) processes().share_memory(std::get<1>(GetParam()));
  }
};

TEST_F(Mpi, BroadcastSendsTheDataOfRankZero) {
  std::string text = processes().rank() == 0 ? "of rank 0" : "something of another length";
  processes().broadcast(text);
  EXPECT_EQ(text, "of rank 0");
}

TEST_F(Mpi, AnyIsTrueIfItIsForOneProcess) {
  EXPECT_TRUE(processes().any(processes().rank() == processes().size() - 1));
  EXPECT_FALSE(processes().any(false));
}

TEST_F(Mpi, FirstTextIsThatOfTheLowestRankWithAText) {
  const int rank = processes().rank();
  EXPECT_EQ(processes().first_text(rank == 0 ? "" : "of rank " + std::to_string(rank)), "of rank 1");
  EXPECT_EQ(processes().first_text(""), "");
}

TEST_F(Mpi, RequireSameNamesTheDifference) {
  processes().require_same("equal", "a word");
  expect_error([] { processes().require_same(processes().rank() == 1 ? "b" : "a", "a letter"); },
               {"rank 1 differs from rank 0 in a letter"});
}

TEST_F(Mpi, AProcessWithAnotherSchemaIsRefused) {
  const TempFolder folder;
  write_text(folder / "events.avsc", processes().rank() == 1 ? "b, a" : "a, b");
  Job job = parse_job(
      fmt::format(
          "model: mlp\n"
          "data: {{source: kafka, brokers: none, topic: none, shape: [2], end: now, format: avro, fields: [a, b], "
          "schema: \"{}\"}}\nstrategy: mirrored\n",
          (folder / "events.avsc").string()),
      "job.yaml");
  expect_error([&] { open_job_stream(job, {.processes = &processes()}); },
               {"rank 1 differs from rank 0 in the files that say how messages are read"});
}

TEST_P(MpiMembers, MembersSumEveryBucketAndGatherInTheOrderOfRanks) {
  const int local = std::get<0>(GetParam());
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
        const std::span<std::byte> memory = member.allocate(3 * count * sizeof(float));
        const std::span<float> floats(reinterpret_cast<float*>(memory.data()), 3 * count);
        std::vector<std::span<float>> buckets;
        for (const float factor : {1.0F, 10.0F, 100.0F}) {
          buckets.push_back(floats.subspan(buckets.size() * count, count));
          std::ranges::fill(buckets.back(), factor * static_cast<float>(member.rank() + 1));
        }
        for (const std::span<float> bucket : buckets) {
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

// Whoever is left may have to apply a step from its own sums, when others have begun the next one.
TEST_P(MpiMembers, SumsStayUntilTheirOwnerBeginsTheNextStep) {
  const int local = std::get<0>(GetParam());
  ThreadTeam team(local);
  std::vector<std::unique_ptr<Group>> members;
  for (int i = 0; i < local; ++i) members.push_back(processes().join(team.member(i)));
  const int size = local * processes().size();
  const auto sum = static_cast<float>(size * (size + 1) / 2);
  const bool behind = processes().rank() + 1 == processes().size();
  std::vector<std::jthread> threads;
  for (int i = 0; i < local; ++i) {
    threads.emplace_back([&, i] {
      constexpr size_t kCount = 100'003;
      Group& member = *members[static_cast<size_t>(i)];
      const std::span<std::byte> memory = member.allocate(kCount * sizeof(float));
      const std::span<float> bucket(reinterpret_cast<float*>(memory.data()), kCount);
      const auto [begin, end] = member.shard(kCount);
      const std::span<float> shard = bucket.subspan(begin, end - begin);
      const auto holds = [&](float value) { return std::ranges::count(shard, value) == std::ssize(shard); };
      for (const float step : {1.0F, 2.0F}) {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
        while (behind && step > 1 && std::chrono::steady_clock::now() < until) EXPECT_TRUE(holds(sum));
        std::ranges::fill(bucket, step * static_cast<float>(member.rank() + 1));
        member.start_reduce_scatter(bucket);
        member.finish();
        EXPECT_TRUE(holds(step * sum));
        member.barrier();
      }
    });
  }
}

// (1e8 + −1e8) + 1 is 1 in f32; any other order gives 0.
TEST_P(MpiMembers, SumsHaveTheSameBitsOnEveryProcess) {
  ThreadTeam team(1);
  const auto member = processes().join(team.member(0));
  constexpr size_t kCount = 5000;
  const std::span<std::byte> memory = member->allocate(kCount * sizeof(float));
  const std::span<float> mine(reinterpret_cast<float*>(memory.data()), kCount);
  const std::vector<float> values{1e8F, -1e8F, 1.0F, 0.0F};
  for (int step = 0; step < 50; ++step) {
    std::ranges::fill(mine, values[static_cast<size_t>(processes().rank())] * static_cast<float>(step));
    member->start_reduce_scatter(mine);
    member->finish();
    std::vector<float> first(mine.begin(), mine.end());
    processes().broadcast(std::as_writable_bytes(std::span(first)));
    ASSERT_TRUE(std::ranges::equal(mine, first)) << "step " << step;
    if (processes().size() < 3) continue;
    ASSERT_EQ(mine[kCount / 2], static_cast<float>(step)) << "not summed in rank order";
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, MpiMembers, testing::Combine(testing::Values(1, 2), testing::Bool()));

TEST_F(Mpi, ABucketOutsideTheMemoryOfTheGroupIsRefused) {
  processes().share_memory(true);
  ThreadTeam team(1);
  const auto member = processes().join(team.member(0));
  member->allocate(1024);
  std::vector<float> elsewhere(16);
  member->start_reduce_scatter(elsewhere);
  expect_error([&] { member->finish(); }, {"a shard of 16 floats is not in the memory of its group"},
               Error::Kind::run);
}

TEST_F(Mpi, EveryProcessGetsTheMinimumOfEachValue) {
  const auto rank = static_cast<float>(processes().rank());
  std::vector<float> values{rank, -rank, 7};
  processes().lowest(values);
  EXPECT_EQ(values, (std::vector<float>{0, 1.0F - static_cast<float>(processes().size()), 7}));
}

TEST_F(Mpi, ExposedTimeIsThatOfTheProcessThatWaitedLeast) {
  const double rank = processes().rank();
  // In the first step rank 0 is the slowest, in the second the last rank.
  const double last = processes().size() - 1;
  std::vector<CommunicationTime> steps{{.exposed = 0.5 + rank},
                                       {.exposed = 0.25 + last - rank, .waiting = 1}};
  compare_over(processes(), steps);
  EXPECT_DOUBLE_EQ(steps[0].exposed, 0.5);
  EXPECT_DOUBLE_EQ(steps[0].waiting, rank);
  EXPECT_DOUBLE_EQ(steps[1].exposed, 0.25);
  EXPECT_DOUBLE_EQ(steps[1].waiting, 1 + last - rank);
}

}  // namespace
}  // namespace telar::test
