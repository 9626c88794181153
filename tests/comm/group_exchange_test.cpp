#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "telar/comm/thread_group.h"

namespace telar {
namespace {

/// Calls body(member) for all members at the same time.
template <typename Body>
void with_members(int count, const Body& body) {
  ThreadTeam team(count);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < count; ++rank) threads.emplace_back([&, rank] { body(team.member(rank)); });
}

TEST(GroupExchange, DeliversToEachMemberWhatIsMeantForIt) {
  with_members(3, [](Group& member) {
    // Member s sends r the bytes {s, r}, r times.
    std::vector<std::vector<std::byte>> sent(3);
    std::vector<std::vector<std::byte>> received(3);
    std::vector<std::span<const std::byte>> outgoing;
    std::vector<std::span<std::byte>> incoming;
    for (int r = 0; r < 3; ++r) {
      for (int i = 0; i < r; ++i) {
        sent[static_cast<size_t>(r)].push_back(static_cast<std::byte>(member.rank()));
        sent[static_cast<size_t>(r)].push_back(static_cast<std::byte>(r));
      }
      received[static_cast<size_t>(r)].resize(static_cast<size_t>(2 * member.rank()));
      outgoing.emplace_back(sent[static_cast<size_t>(r)]);
      incoming.emplace_back(received[static_cast<size_t>(r)]);
    }
    for (int turn = 0; turn < 50; ++turn) member.exchange(outgoing, incoming);
    for (int s = 0; s < 3; ++s) {
      if (s == member.rank()) continue;
      const auto& bytes = received[static_cast<size_t>(s)];
      for (size_t i = 0; i < bytes.size(); i += 2) {
        EXPECT_EQ(bytes[i], static_cast<std::byte>(s));
        EXPECT_EQ(bytes[i + 1], static_cast<std::byte>(member.rank()));
      }
    }
  });
}

TEST(GroupExchange, SharedShardsAreTheWholeSum) {
  with_members(3, [](Group& member) {
    const std::span<std::byte> memory = member.allocate(1000 * sizeof(float));
    const std::span<float> bucket(reinterpret_cast<float*>(memory.data()), 1000);
    for (int step = 1; step <= 5; ++step) {
      for (size_t i = 0; i < bucket.size(); ++i)
        bucket[i] = static_cast<float>(step * (member.rank() + 1)) * static_cast<float>(i);
      member.start_reduce_scatter(bucket);
      member.finish();
      member.share_shards(bucket);
      for (size_t i = 0; i < bucket.size(); ++i)
        ASSERT_EQ(bucket[i], static_cast<float>(6 * step) * static_cast<float>(i));
    }
  });
}

TEST(GroupExchange, ValuesOfAllMembers) {
  with_members(4, [](Group& member) {
    EXPECT_EQ(sum_over_members(member, 1.0 / (member.rank() + 1)), 1.0 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4);
    EXPECT_EQ(largest_of_members(member, (uint64_t{1} << 40) + static_cast<uint64_t>(member.rank())),
              (uint64_t{1} << 40) + 3);
  });
}

TEST(GroupExchange, WindowsShowWhatEachMemberHasWritten) {
  with_members(3, [](Group& member) {
    for (size_t turn = 0; turn < 60; ++turn) {
      const size_t bytes = turn < 20 ? 100 : 1000;  // they grow once
      Windows* windows = member.windows(bytes);
      ASSERT_NE(windows, nullptr);
      for (std::byte& byte : windows->own().first(bytes))
        byte = static_cast<std::byte>(10 * static_cast<size_t>(member.rank()) + turn);
      windows->meet();
      for (int m = 0; m < member.size(); ++m) {
        const std::span<const std::byte> there = windows->of(m).first(bytes);
        const auto expected = static_cast<std::byte>(10 * static_cast<size_t>(m) + turn);
        EXPECT_TRUE(std::ranges::all_of(there, [&](std::byte byte) { return byte == expected; }));
      }
    }
  });
}

}  // namespace
}  // namespace telar
