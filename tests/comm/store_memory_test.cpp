#include <cstring>

#include "store_fixture.h"
#include "support/sentences.h"
#include "telar/comm/store/chain_memory.h"
#include "telar/comm/store/store_memory.h"

namespace telar {
namespace {

constexpr size_t kSharedFloats = 600'000;

TEST_F(StoreTest, SharedMemoryGivesTheSameBitsAsTheNetwork) {
  std::vector<float> results[2];
  for (const bool shared : {false, true}) {
    const auto server = serve();
    StoreClientOptions options = client_options(*server, 1);
    options.shared_memory = shared;
    StoreClient client(options);
    client.create(layout_of(kSharedFloats), "plain");
    client.write("", values(kSharedFloats, 1, 0.1F), 0);
    client.attach();
    for (int step = 0; step < 5; ++step) {
      for (size_t i = 0; i < kSharedFloats; ++i)
        client.outgoing()[i] = 0.3F * static_cast<float>((i + static_cast<size_t>(step)) % 13);
      StoreExchange exchange = whole(client);
      exchange.learning_rate = 0.1F;
      exchange.samples = 3;
      exchange.end = 300'000 / 16 * 16;
      client.start(exchange);
      exchange.begin = exchange.end;
      exchange.end = client.outgoing().size();
      client.start(exchange);
      EXPECT_EQ(client.finish().staleness, 0);
    }
    EXPECT_EQ(client.traffic().shared_memory, shared);
    results[shared ? 1 : 0].assign(client.incoming().begin(), client.incoming().end());
    std::vector<float> read(client.outgoing().size());
    client.read("", read);
    EXPECT_EQ(0, std::memcmp(read.data(), client.incoming().data(), read.size() * sizeof(float)));
  }
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(), kSharedFloats * sizeof(float)));
}

TEST_F(StoreTest, UsesTheNetworkIfTheServerDoesNotShareMemory) {
  StoreServerOptions own = server_options("127.0.0.1:0", "");
  own.shared_memory = false;
  const StoreServer server(own);
  StoreClientOptions options = client_options(server, 1);
  options.shared_memory = true;
  StoreClient client(options);
  client.create(layout_of(kSharedFloats), "plain");
  client.attach();
  fill(client, -1);
  client.start(whole(client));
  client.finish();
  EXPECT_FALSE(client.traffic().shared_memory);
  EXPECT_EQ(client.incoming()[kSharedFloats - 1], 1);
}

/// A server that was stopped, and goes on when its blocks are another server's, may read old requests, and
/// write old answers.
TEST(StoreMemory, IsAnotherServersWhenItIsRenewed) {
  const auto member = StoreMemory::make(64);
  ASSERT_TRUE(member);
  const auto before = StoreMemory::open(member->where(), 64);
  ASSERT_TRUE(before);
  EXPECT_EQ(before->proof(), member->proof());
  member->begin();
  member->put_request({.sequence = 1}, {});
  member->outgoing()[3] = 5;
  before->incoming()[7] = 2;
  const float* const place = member->incoming().data();

  ASSERT_TRUE(member->renew());
  EXPECT_EQ(member->incoming().data(), place);
  EXPECT_EQ(member->incoming()[7], 2) << "what was answered stays";
  const auto after = StoreMemory::open(member->where(), 64);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->proof(), member->proof());
  EXPECT_NE(before->proof(), member->proof());
  EXPECT_EQ(after->outgoing()[3], 5);
  member->begin();
  member->put_request({.sequence = 2}, {});
  EXPECT_EQ(before->take_request().value().header.sequence, 1U);
  EXPECT_FALSE(before->take_request());
  before->incoming()[7] = 9;
  before->put_answer({.sequence = 1});
  EXPECT_EQ(member->incoming()[7], 2);
  EXPECT_FALSE(member->take_answer());
  EXPECT_EQ(after->take_request().value().header.sequence, 2U);
}

TEST(StoreMemory, IsNotOpenedByWhatIsNoSuchMemory) {
  const auto member = StoreMemory::make(64);
  ASSERT_TRUE(member);
  EXPECT_FALSE(StoreMemory::open(member->where(), 65));
  for (const char* where : {"", "1", "1:2", "1:2:", "x:2:3", "0:0:0", "1:2:3:4"})
    EXPECT_FALSE(StoreMemory::open(where, 64)) << where;
}

TEST(ChainMemory, HasCopiesUntilTheyAreReleased) {
  const auto successor = ChainMemory::make(100'000);
  ASSERT_TRUE(successor);
  const auto predecessor = ChainMemory::open(successor->where());
  ASSERT_TRUE(predecessor);
  std::vector<std::byte> values(40'000);
  std::vector<std::shared_ptr<const std::byte>> copies;
  for (int i = 0; i < 2; ++i) {
    std::ranges::fill(values, std::byte(i + 1));
    copies.push_back(predecessor->keep(values));
    ASSERT_TRUE(copies[i]);
  }
  EXPECT_FALSE(predecessor->keep(values)) << "it is full";
  EXPECT_FALSE(predecessor->keep(std::span(values).first(64))) << "that is too little";
  const size_t second = predecessor->offset_of(copies[1].get()).value();
  for (const std::byte value : successor->values(second, values.size())) ASSERT_EQ(value, std::byte{2});
  copies[0].reset();
  EXPECT_TRUE(predecessor->keep(values));
  EXPECT_FALSE(predecessor->offset_of(values.data()));
  test::expect_error([&] { successor->values(second, 200'000); }, {"values at"});
}

TEST(ChainMemory, IsNotOpenedByWhatIsNoSuchMemory) {
  const auto successor = ChainMemory::make(100'000);
  ASSERT_TRUE(successor);
  const std::string where = successor->where();
  EXPECT_TRUE(ChainMemory::open(where));
  EXPECT_FALSE(ChainMemory::open(where.substr(0, where.rfind(':')) + ":7")) << "the memory of another host";
  for (const char* wrong : {"", "1:2:3", "1:2:3:4:5", "1:2:0:4"})
    EXPECT_FALSE(ChainMemory::open(wrong)) << wrong;
}

}  // namespace
}  // namespace telar
