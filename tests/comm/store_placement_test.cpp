#include "telar/comm/store/store_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace telar::test {
namespace {

using Servers = std::vector<StoreServerId>;

/// Does at once what takes some generations in truth: afterwards the servers of the shard are these.
void perform(std::vector<StoreChain>& chains, const std::vector<ShardPlacement>& placements) {
  for (const ShardPlacement& placement : placements) chains[placement.shard].servers = placement.servers;
}

/// Returns how many steps it has taken until nothing more was to be done.
size_t settle(std::vector<StoreChain>& chains, const Servers& servers, size_t copies) {
  for (size_t steps = 0; steps < 1000; ++steps) {
    const std::vector<ShardPlacement> next = next_placements(chains, servers, copies);
    if (next.empty()) return steps;
    perform(chains, next);
  }
  ADD_FAILURE() << "it does not come to an end";
  return 0;
}

std::vector<StoreChain> chains_of(const std::vector<Servers>& servers) {
  std::vector<StoreChain> chains;
  for (const Servers& one : servers) chains.push_back({.generation = 1, .servers = one});
  return chains;
}

std::vector<Servers> servers_of(const std::vector<StoreChain>& chains) {
  std::vector<Servers> all;
  for (const StoreChain& chain : chains) all.push_back(chain.servers);
  return all;
}

void expect_even(const std::vector<StoreChain>& chains, const Servers& servers, size_t copies) {
  std::map<StoreServerId, size_t> held;
  std::map<StoreServerId, size_t> headed;
  for (const StoreChain& chain : chains) {
    EXPECT_EQ(chain.servers.size(), std::min(copies, servers.size()));
    Servers sorted = chain.servers;
    std::ranges::sort(sorted);
    EXPECT_EQ(std::ranges::adjacent_find(sorted), sorted.end()) << "two copies on one server";
    for (const StoreServerId server : chain.servers) ++held[server];
    ++headed[chain.servers.front()];
  }
  for (auto& counts : {held, headed}) {
    size_t least = chains.size();
    size_t most = 0;
    size_t all = 0;
    for (const StoreServerId server : servers) {
      const auto found = counts.find(server);
      const size_t count = found == counts.end() ? 0 : found->second;
      all += count;
      least = std::min(least, count);
      most = std::max(most, count);
    }
    EXPECT_LE(most, least + 1);
    for (const auto& [server, count] : counts) all -= count;
    EXPECT_EQ(all, 0) << "a server that is not there has a copy";
  }
}

TEST(StorePlacement, EachShardsCopyIsOnTheNextServer) {
  std::vector<StoreChain> chains = chains_of({{7}, {5}, {9}, {6}});
  settle(chains, {7, 5, 9, 6}, 2);
  EXPECT_EQ(servers_of(chains), (std::vector<Servers>{{7, 5}, {5, 9}, {9, 6}, {6, 7}}));
}

TEST(StorePlacement, AThirdServerGetsAShare) {
  std::vector<StoreChain> chains = chains_of({{1, 2}, {2, 1}});
  EXPECT_EQ(settle(chains, {1, 2, 3}, 2), 1U);
  EXPECT_EQ(servers_of(chains), (std::vector<Servers>{{1, 2}, {2, 3}})) << "the heads stay";
}

TEST(StorePlacement, AServerThatReturnsGetsAHeadBack) {
  std::vector<StoreChain> chains = chains_of({{1, 2}, {1, 2}});
  EXPECT_EQ(settle(chains, {1, 2}, 2), 1U);
  EXPECT_EQ(servers_of(chains), (std::vector<Servers>{{2, 1}, {1, 2}}));
}

TEST(StorePlacement, NothingIsEvenedOutWhileAChainIsFilled) {
  std::vector<StoreChain> chains = chains_of({{1, 2}, {1, 2}});
  chains[0].joins_since = 1;
  EXPECT_TRUE(next_placements(chains, {1, 2, 3}, 2).empty());
}

TEST(StorePlacement, WhoLeavesGoesWhenAnotherServerHasItsCopy) {
  const std::vector<StoreChain> chains = chains_of({{1, 2}, {2, 1}});
  EXPECT_TRUE(next_placements(chains, {2}, 2).empty()) << "there is no other";
  const std::vector<ShardPlacement> next = next_placements(chains, {2, 3}, 2);
  ASSERT_EQ(next.size(), 2U);
  for (const ShardPlacement& placement : next) EXPECT_EQ(placement.servers, (Servers{2, 3}));
}

/// Servers that are lost, come back and join, in seeded orders.
TEST(StorePlacement, IsEvenAfterEveryChange) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 draw(seed);
    const size_t copies = 2 + draw() % 2;
    const size_t shards = 1 + draw() % 7;
    Servers servers;
    std::vector<StoreChain> chains;
    for (size_t s = 0; s < shards; ++s) {
      servers.push_back(s + 1);
      chains.push_back({.generation = 1, .servers = {s + 1}});
    }
    StoreServerId last = shards;
    settle(chains, servers, copies);
    expect_even(chains, servers, copies);
    for (int change = 0; change < 8; ++change) {
      if (servers.size() > 2 && draw() % 2 == 0) {
        const auto lost = servers.begin() + static_cast<ptrdiff_t>(draw() % servers.size());
        for (StoreChain& chain : chains) std::erase(chain.servers, *lost);
        servers.erase(lost);
      } else {
        servers.insert(servers.begin() + static_cast<ptrdiff_t>(draw() % (servers.size() + 1)), ++last);
      }
      EXPECT_LE(settle(chains, servers, copies), 1 + 2 * shards * copies) << "seed " << seed;
      expect_even(chains, servers, copies);
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", change " << change;
    }
  }
}

}  // namespace
}  // namespace telar::test
