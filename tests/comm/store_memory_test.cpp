#include <cstring>

#include "store_fixture.h"

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

}  // namespace
}  // namespace telar
