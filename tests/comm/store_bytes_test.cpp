#include "store_fixture.h"

namespace telar {
namespace {

constexpr size_t kCountedFloats = size_t{3} << 20;
constexpr uint32_t kCountedMembers = 4;
constexpr size_t kBlockBytes = size_t{1} << 20;

class StoreBytes : public StoreTest {
 protected:
  /// Four members push and pull everything three times, concurrently.
  void push_from_all(const StoreServer& server, bool rounds) {
    std::vector<std::jthread> members;
    for (uint32_t member = 1; member <= kCountedMembers; ++member)
      members.emplace_back([&, member] {
        auto client = connect(server, member);
        client->attach();
        fill(*client, 1);
        StoreExchange exchange = whole(*client);
        for (int64_t number = 1; number <= 3; ++number) {
          if (rounds) exchange.round = StoreRound{.number = number, .members = {1, 2, 3, 4}};
          client->start(exchange);
          client->finish();
        }
      });
  }
};

TEST_F(StoreBytes, AServerHoldsAtMostTwiceTheLargestBucketBesidesItsArenas) {
  for (const bool rounds : {false, true}) {
    StoreServerOptions options = server_options("127.0.0.1:0", "");
    options.round_seconds = 60;
    const StoreServer server(options);
    connect(server)->create(layout_of(kCountedFloats), "plain");
    push_from_all(server, rounds);
    // The parameters, and the single state slot of PlainUpdate.
    EXPECT_EQ(server.memory().arenas, 2 * kCountedFloats * sizeof(float));
    EXPECT_GE(server.memory().most_beside, kBlockBytes);
    EXPECT_LE(server.memory().most_beside, 2 * kCountedFloats * sizeof(float));
  }
}

}  // namespace
}  // namespace telar
