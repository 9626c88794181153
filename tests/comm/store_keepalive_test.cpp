#include "relay.h"
#include "store_fixture.h"

namespace telar {
namespace {

constexpr size_t kKeepaliveFloats = 64;
/// Longer than any test takes.
constexpr double kNever = 3600;

class StoreKeepalive : public StoreTest {};

TEST_F(StoreKeepalive, AClientDetectsThatTheServersHostIsLost) {
  auto server = serve();
  attached(*server, kKeepaliveFloats);
  test::Relay relay(server->address());
  StoreClientOptions options = client_options(*server, 2);
  options.address = relay.address();
  options.keepalive_seconds = 1;
  options.say = log_.say();
  StoreClient client(options);
  client.attach();
  client.start(whole(client));
  client.finish();
  relay.stall(true);
  EXPECT_TRUE(log_.hears("was lost")) << log_.all();
}

TEST_F(StoreKeepalive, AServerDetectsThatAMembersHostIsLost) {
  StoreServerOptions options = server_options("127.0.0.1:0", "");
  options.round_seconds = kNever;
  options.keepalive_seconds = 1;
  const StoreServer server(options);
  auto steady = attached(server, kKeepaliveFloats, 1);
  test::Relay relay(server.address());
  StoreClientOptions far = client_options(server, 2);
  far.address = relay.address();
  far.keepalive_seconds = kNever;
  StoreClient vanished(far);
  vanished.attach();
  vanished.start(whole(vanished));
  vanished.finish();
  relay.stall(true);
  StoreExchange exchange = whole(*steady);
  exchange.round = StoreRound{.number = 1, .members = {1, 2}};
  steady->start(exchange);
  // No member is given up for silence here: the round ends because the connection has ended.
  EXPECT_TRUE(steady->finish().late);
  relay.stall(false);
}

}  // namespace
}  // namespace telar
