#include <cstring>
#include <map>

#include "store_fixture.h"

namespace telar {
namespace {

constexpr size_t kRoundFloats = 600'000;

/// The contribution of a member. Sums of these differ in their last bits if they are added in another order.
float contribution(uint32_t member, size_t i) {
  return (static_cast<float>(i % 97) + 0.1F) * std::pow(10.0F, static_cast<float>(member) - 2.0F);
}

class StoreRounds : public StoreTest {
 protected:
  std::unique_ptr<StoreClient> member(const StoreServer& server, uint32_t id, bool shared = false) {
    StoreClientOptions options = client_options(server, id);
    options.shared_memory = shared;
    auto client = std::make_unique<StoreClient>(options);
    client->create(layout_of(kRoundFloats), "plain");
    client->attach();
    for (size_t i = 0; i < client->outgoing().size(); ++i) client->outgoing()[i] = contribution(id, i);
    return client;
  }
  static StoreExchange in_round(StoreClient& client, int64_t number, std::vector<uint32_t> members) {
    StoreExchange exchange = whole(client);
    exchange.round = StoreRound{.number = number, .members = std::move(members)};
    return exchange;
  }
};

TEST_F(StoreRounds, SumsFollowTheOrderOfMembersNotOfArrival) {
  std::vector<float> expected(kRoundFloats);
  for (size_t i = 0; i < kRoundFloats; ++i) {
    float sum = contribution(3, i);
    sum += contribution(1, i);
    sum += contribution(2, i);
    expected[i] = 0.0F - 1.0F * (sum / 3);
  }
  const std::vector<std::vector<uint32_t>> arrivals{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}};
  for (const bool shared : {false, true}) {
    for (const auto& arrival : arrivals) {
      const auto server = serve();
      std::map<uint32_t, std::unique_ptr<StoreClient>> members;
      for (const uint32_t id : arrival) {
        members[id] = member(*server, id, shared);
        members[id]->start(in_round(*members[id], 1, {3, 1, 2}));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      // Over shared memory, exchanges progress only in finish(), so every member needs a thread.
      std::vector<std::thread> threads;
      for (const auto& [id, client] : members)
        threads.emplace_back([&client = *client] { EXPECT_FALSE(client.finish().late); });
      for (std::thread& thread : threads) thread.join();
      for (const auto& [id, client] : members)
        ASSERT_EQ(0, std::memcmp(expected.data(), client->incoming().data(), kRoundFloats * sizeof(float)));
    }
  }
}

/// An update of some parts of a batch is another one than that of the batch.
TEST_F(StoreRounds, WithoutTheContributionOfASilentMemberNothingIsApplied) {
  const auto server = serve();
  const auto one = member(*server, 1);
  const auto two = member(*server, 2);
  one->start(in_round(*one, 1, {1, 2}));
  EXPECT_TRUE(one->finish().late);
  for (size_t i = 0; i < kRoundFloats; i += 1000) ASSERT_EQ(one->incoming()[i], 0);
  two->start(in_round(*two, 1, {1, 2}));  // it was stopped meanwhile
  EXPECT_TRUE(two->finish().late);
  one->start(in_round(*one, 2, {1}));
  EXPECT_FALSE(one->finish().late);
  for (size_t i = 0; i < kRoundFloats; i += 1000) ASSERT_EQ(one->incoming()[i], 0.0F - contribution(1, i));
  std::vector<float> steps(kRoundFloats);
  one->read("steps", steps);
  EXPECT_EQ(steps, std::vector<float>(kRoundFloats, 1));
}

TEST_F(StoreRounds, DoesNotWaitForAMemberThatHasLeft) {
  const auto server = serve();
  const auto one = member(*server, 1);
  const auto three = member(*server, 3);
  {
    const auto two = member(*server, 2);
    two->start(in_round(*two, 1, {2}));
    two->finish();
  }
  const auto begin = std::chrono::steady_clock::now();
  one->start(in_round(*one, 2, {1, 2, 3}));
  three->start(in_round(*three, 2, {1, 2, 3}));
  EXPECT_TRUE(one->finish().late);
  EXPECT_TRUE(three->finish().late);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(StoreRounds, ALaterRoundEndsAnEarlierOne) {
  const auto server = serve();
  const auto one = member(*server, 1);
  const auto two = member(*server, 2);
  const auto three = member(*server, 3);
  one->start(in_round(*one, 1, {1, 2}));  // counts as lost from here on, as far as the coordinator knows
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (const auto& client : {&two, &three}) (*client)->start(in_round(**client, 5, {2, 3}));
  EXPECT_FALSE(two->finish().late);
  EXPECT_FALSE(three->finish().late);
  EXPECT_TRUE(one->finish().late);
  std::vector<float> steps(kRoundFloats);
  two->read("steps", steps);
  EXPECT_EQ(steps, std::vector<float>(kRoundFloats, 1));
}

TEST_F(StoreRounds, AMemberThatRunsAheadWaitsForMemory) {
  constexpr size_t kMany = kRoundFloats * 10;  // 24 MB, of which the server keeps 8 open
  const auto server = serve();
  std::vector<std::unique_ptr<StoreClient>> members;
  for (const uint32_t id : {1U, 2U}) {
    members.push_back(attached(*server, kMany, id));
    fill(*members.back(), static_cast<float>(id));
  }
  members[0]->start(in_round(*members[0], 1, {1, 2}));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  members[1]->start(in_round(*members[1], 1, {1, 2}));
  for (const auto& client : members) {
    EXPECT_FALSE(client->finish().late);
    for (size_t i = 0; i < kMany; i += 500) ASSERT_EQ(client->incoming()[i], -1.5F);
  }
}

}  // namespace
}  // namespace telar
