#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <optional>

#include "comm/relay.h"
#include "members_support.h"
#include "store_fixture.h"
#include "support/sanitizers.h"
#include "telar/comm/door.h"
#include "telar/comm/greeting.h"
#include "telar/comm/linked/linked_processes.h"
#include "telar/comm/peers/peer_links.h"

namespace telar {
namespace {

using HostileClock = std::chrono::steady_clock;

const std::string kDoorToken = "0123456789abcdef";
constexpr size_t kMebibyte = size_t{1} << 20;

std::string http2_frame(uint8_t kind, uint8_t flags, uint8_t stream, const std::string& payload) {
  std::string frame(9, '\0');
  for (size_t i = 0; i < 3; ++i) frame[i] = static_cast<char>(payload.size() >> (16 - 8 * i));
  frame[3] = static_cast<char>(kind);
  frame[4] = static_cast<char>(flags);
  frame[8] = static_cast<char>(stream);
  return frame + payload;
}

/// What one kind of hostile connection sends: first `once`, then `again` for ever, as fast as the server
/// reads it or one byte of it a second.
struct Hostility {
  std::string once;
  std::string again;
  bool slow = false;
};

/// A literal HPACK header: its name and value are shorter than 127 bytes.
std::string hpack(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name + static_cast<char>(value.size()) +
         value;
}

std::string call_with_wrong_token(uint8_t stream) {
  const std::string headers = hpack(":method", "POST") + hpack(":scheme", "http") +
                              hpack(":path", "/telar.store.ParameterStore/Create") + hpack("te", "trailers") +
                              hpack("content-type", "application/grpc") + hpack("telar-token", "wrong");
  return http2_frame(1, 4, stream, headers);
}

std::vector<Hostility> hostilities() {
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2_frame(4, 0, 0, "");
  const std::string wrong_greeting =
      "CONNECT telar HTTP/1.1\r\n" + greeting_headers({.token = "wrong"}) + "\r\n\r\n";
  const std::string large = std::string("\0\x20\0\0\0", 5);  // the length of a message: 512 MB
  std::string many_streams = preface;
  for (uint8_t stream = 1; stream < 255; stream += 2) many_streams += call_with_wrong_token(stream);
  return {{},
          {.once = "CONNECT telar HTTP/1.1\r\n", .again = "x", .slow = true},
          {.once = "CONNECT telar HTTP/1.1\r\n", .again = std::string(1000, 'x')},
          {.once = preface},
          {.once = preface + http2_frame(1, 0, 1, std::string(100, 'x')),
           .again = http2_frame(9, 0, 1, std::string(16000, 'x'))},
          {.once = preface + call_with_wrong_token(1) + http2_frame(0, 0, 1, large),
           .again = http2_frame(0, 0, 1, std::string(16000, 'x'))},
          {.once = wrong_greeting + preface + call_with_wrong_token(1) + http2_frame(0, 0, 1, large),
           .again = http2_frame(0, 0, 1, std::string(16000, 'x'))},
          {.once = many_streams, .again = http2_frame(0, 0, 1, std::string(16000, 'x'))},
          {.once = preface, .again = http2_frame(4, 0, 0, "") + http2_frame(6, 0, 0, "12345678")}};
}

/// Keeps `count` hostile connections to a server of this host: where the server closes one, it opens another.
class Crowd {
 public:
  Crowd(const std::string& address, size_t count) : hostilities_(hostilities()), clients_(count) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address_.sin_port = htons(Address::parse(address).port);
    thread_ = std::jthread([this](const std::stop_token& end) {
      while (!end.stop_requested()) {
        for (size_t i = 0; i < clients_.size(); ++i) turn(clients_[i], hostilities_[i % hostilities_.size()]);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  ~Crowd() {
    thread_.request_stop();
    thread_.join();
    for (const Client& client : clients_)
      if (client.socket >= 0) close(client.socket);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  size_t closed() const { return closed_; }
  /// The longest time for which a connection stayed open.
  double longest_seconds() const { return longest_; }

 private:
  struct Client {
    int socket = -1;
    HostileClock::time_point since{};
    HostileClock::time_point last_byte{};
    bool sent_once = false;
  };

  void turn(Client& client, const Hostility& hostility) {
    const auto now = HostileClock::now();
    if (client.socket < 0) {
      if (now - client.since < std::chrono::seconds(1)) return;  // there are only 28,000 ports
      client.since = client.last_byte = now;
      client.sent_once = false;
      client.socket = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      if (connect(client.socket, reinterpret_cast<const sockaddr*>(&address_), sizeof(address_)) != 0 &&
          errno != EINPROGRESS)
        return end(client);
      return;
    }
    char byte = 0;
    const ssize_t received = recv(client.socket, &byte, 1, MSG_PEEK);
    const bool open = received > 0 || (received < 0 && errno == EAGAIN);
    longest_ = std::max<double>(longest_, std::chrono::duration<double>(now - client.since).count());
    if (!open || !speak(client, hostility, now)) end(client);
  }
  static bool put(int socket, const std::string& bytes) {
    return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0 || errno == EAGAIN;
  }
  static bool speak(Client& client, const Hostility& hostility, HostileClock::time_point now) {
    if (!std::exchange(client.sent_once, true)) return put(client.socket, hostility.once);
    if (hostility.again.empty()) return true;
    if (!hostility.slow) return put(client.socket, hostility.again);
    if (now - client.last_byte < std::chrono::seconds(1)) return true;
    client.last_byte = now;
    return put(client.socket, hostility.again);
  }
  void end(Client& client) {
    close(std::exchange(client.socket, -1));
    ++closed_;
  }

  std::vector<Hostility> hostilities_;
  std::vector<Client> clients_;
  sockaddr_in address_{};
  std::atomic<size_t> closed_{0};
  std::atomic<double> longest_{0};
  std::jthread thread_;
};

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0;
  file >> pages >> pages;
  return pages * static_cast<size_t>(getpagesize());
}

/// The growth of this process, which includes the crowd itself, within some seconds.
size_t growth(double seconds) {
  const size_t before = resident_bytes();
  size_t most = before;
  const auto begin = HostileClock::now();
  while (std::chrono::duration<double>(HostileClock::now() - begin).count() < seconds) {
    most = std::max(most, resident_bytes());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return most - before;
}

constexpr size_t kCrowd = 1000;
constexpr double kCrowdSeconds = 7;

void expect_crowd_held_off(const Crowd& crowd, size_t grown) {
  // Sanitizers keep freed memory, and have more of their own.
  if (!test::kSanitized) {
    EXPECT_LE(grown, 20 * kMebibyte);
  }
  EXPECT_GT(crowd.closed(), kCrowd);
  EXPECT_LT(crowd.longest_seconds(), Door::kGreetingSeconds + 1.5);
}

class DoorTest : public StoreTest {};

TEST_F(DoorTest, AThousandStrangersDoNotMakeAServerGrowNorKeepMembersOut) {
  StoreServerOptions options = server_options("127.0.0.1:0", "");
  options.security.token = kDoorToken;
  const StoreServer server(options);
  const auto push = [&](uint32_t member) {
    StoreClientOptions own = client_options(server, member);
    own.security.token = kDoorToken;
    StoreClient client(own);
    client.create(layout_of(1000), "plain");
    client.attach();
    client.start(whole(client));
    client.finish();
  };
  push(1);
  const Crowd crowd(server.address(), kCrowd);
  expect_crowd_held_off(crowd, growth(kCrowdSeconds));
  push(2);
  EXPECT_TRUE(log_.hears("were refused)")) << log_.all();
}

TEST_F(DoorTest, AThousandStrangersDoNotMakeACoordinatorGrowNorKeepMembersOut) {
  CoordinatorOptions options = test::coordinator_options(1);
  options.security.token = kDoorToken;
  const Coordinator coordinator(options);
  MembershipOptions own = test::member_options(coordinator.address());
  own.security.token = kDoorToken;
  { const Membership early(own); }
  const Crowd crowd(coordinator.address(), kCrowd);
  expect_crowd_held_off(crowd, growth(kCrowdSeconds));
  const Membership late(own);
  EXPECT_GE(late.id(), 1U);
}

// The same doors: 2 s show that peers have no others.
TEST_F(DoorTest, AThousandStrangersDoNotMakeAGroupOfPeersGrowNorKeepMembersOut) {
  const PeerOptions options{.security = {.token = kDoorToken}};
  const auto meet = [&](const std::function<void(const std::string& address)>& before) {
    PeerMeeting meeting("127.0.0.1:0", 2, "", options);
    before(meeting.address());
    auto other = std::async(std::launch::async, [&, address = meeting.address()] {
      LinkedProcesses processes(std::move(join_peers(address, 2, 20, options)->links));
      EXPECT_TRUE(processes.any(false));
    });
    LinkedProcesses processes(meeting.wait());
    EXPECT_TRUE(processes.any(true));
  };
  meet([](const std::string&) {});
  std::optional<Crowd> crowd;
  meet([&](const std::string& address) {
    crowd.emplace(address, kCrowd);
    const size_t grown = growth(2);
    if (!test::kSanitized) {
      EXPECT_LE(grown, 20 * kMebibyte);
    }
    EXPECT_GT(crowd->closed(), kCrowd / 2);
  });
}

/// A Door without a server.
class DoorLimits : public ::testing::Test {
 protected:
  DoorLimits() {
    door_.open(
        {.token = kDoorToken},
        [this](int socket) {
          ++admitted_;  // before the client sees that the connection has ended
          close(socket);
        },
        log_.say());
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", door_.port()); }

  SentenceLog log_;
  std::atomic<int> admitted_{0};
  Door door_{Address::parse("127.0.0.1:0")};
};

TEST_F(DoorLimits, NothingIsReadBeyond4KB) {
  const std::string begin = "CONNECT telar HTTP/1.1\r\n";
  test::RawClient client(address(), begin + std::string(4096 - begin.size(), 'x'));
  ASSERT_TRUE(log_.hears("was refused: it did not send the greeting of a process of telar")) << log_.all();
  client.wait_for_end();
}

TEST_F(DoorLimits, AGreetingTakesAtMost5Seconds) {
  test::RawClient client(address(), "CONNECT telar HTTP/1.1\r\n");
  ASSERT_TRUE(log_.hears("was refused: it sent no greeting within 5 s")) << log_.all();
  client.wait_for_end();
}

TEST_F(DoorLimits, AtMost256StrangersWait) {
  std::vector<std::unique_ptr<test::RawClient>> clients;
  for (int i = 0; i < 256; ++i) clients.push_back(std::make_unique<test::RawClient>(address(), ""));
  // The answer to this one comes after all others were accepted.
  const std::string greeting =
      "CONNECT telar HTTP/1.1\r\n" + greeting_headers({.token = kDoorToken}) + "\r\n\r\n";
  test::RawClient(address(), greeting).wait_for_end();
  EXPECT_EQ(admitted_, 1);
  EXPECT_TRUE(log_.hears("was refused: too many connections without a greeting")) << log_.all();
  clients.front()->wait_for_end();
}

TEST_F(DoorLimits, AnotherTokenIsNotAdmitted) {
  const std::string greeting =
      "CONNECT telar HTTP/1.1\r\n" + greeting_headers({.token = "fedcba9876543210"}) + "\r\n\r\n";
  test::RawClient(address(), greeting).wait_for_end();
  EXPECT_TRUE(log_.hears("was refused: the token is not the one of this job")) << log_.all();
  EXPECT_EQ(admitted_, 0);
}

TEST_F(DoorLimits, AProcessOfAReleaseThatDoesNotGreetIsNamedWithBothVersions) {
  test::RawClient(address(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").wait_for_end();
  const std::string versions =
      fmt::format("if it is one, its protocol has version 1, here {}", kProtocolVersion);
  EXPECT_TRUE(log_.hears(versions)) << log_.all();
  EXPECT_NE(no_greeting_reason(std::string("\x16\x03\x01\x02", 4)).find(versions), std::string::npos);
  EXPECT_EQ(no_greeting_reason("GET / HTTP/1.1\r\n").find("version"), std::string::npos);
}

TEST(Greeting, ProvesTheTokenWithoutRevealingIt) {
  // Computed with: printf 'telar greeting 1' | openssl dgst -sha256 -hmac 0123456789abcdef
  EXPECT_EQ(greeting_proof({.token = kDoorToken}),
            "9214d2e08f57832d0b5b53be7a4cc5aafe493cb840f42015a8ecb4f1033378e2");
  EXPECT_EQ(greeting_headers({.token = kDoorToken}).find(kDoorToken), std::string::npos);
}

TEST(Greeting, OnlyTheWholeGreetingWithTheRightProofIsAccepted) {
  const std::string proof = greeting_proof({.token = kDoorToken});
  const std::string good =
      "CONNECT telar HTTP/1.1\r\nHost: telar\r\n" + greeting_headers({.token = kDoorToken}) + "\r\n\r\n";
  EXPECT_EQ(judge_greeting(good, proof), Greeting::accepted);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(judge_greeting(good.substr(0, length), proof), Greeting::incomplete) << length;
  EXPECT_EQ(judge_greeting(good + "PRI", proof), Greeting::none) << "a client waits for the answer";
  EXPECT_EQ(judge_greeting("GET / HTTP/1.1\r\n\r\n", proof), Greeting::none);
  EXPECT_EQ(judge_greeting("CONNECT telar HTTP/1.1\r\n" + std::string(kLongestGreeting, 'x'), proof),
            Greeting::none);
  EXPECT_EQ(judge_greeting("CONNECT telar HTTP/1.1\r\n\r\n", proof), Greeting::wrong_token);
  EXPECT_EQ(judge_greeting(good, greeting_proof({.token = "fedcba9876543210"})), Greeting::wrong_token);
  EXPECT_EQ(judge_greeting(good, greeting_proof({})), Greeting::wrong_token);
}

}  // namespace
}  // namespace telar
