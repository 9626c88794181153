#include "comm/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "telar/comm/network.h"

namespace telar::test {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int connect_to(const std::string& text) {
  const int end = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = loopback(Address::parse(text).port);
  if (connect(end, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return end;
  close(end);
  return -1;
}

bool send_all(int end, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t sent = send(end, bytes, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

}  // namespace

class Relay::Impl {
 public:
  explicit Impl(std::string to) : to_(std::move(to)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        listen(listener_, 16) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no relay");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() {
    end_ = true;
    thread_.join();
    cut();
    close(listener_);
  }

  uint16_t port() const { return port_; }
  void cut() {
    const std::lock_guard lock(mutex_);
    for (const Pair& pair : pairs_) close_both(pair);
    pairs_.clear();
  }
  void stall(bool stalled) { stalled_ = stalled; }
  void shut(bool shut) { shut_ = shut; }
  void damage_next(bool to_server) { ways_[to_server ? 0 : 1].damage = true; }
  uint64_t passed(bool to_server) const { return ways_[to_server ? 0 : 1].passed; }

 private:
  struct Way {
    std::atomic<bool> damage{false};
    std::atomic<uint64_t> passed{0};
  };
  using Pair = std::array<int, 2>;

  static void close_both(const Pair& pair) {
    for (const int end : pair) close(end);
  }

  void run() {
    while (!end_) {
      pollfd wait{listener_, POLLIN, 0};
      if (poll(&wait, 1, 1) > 0) {
        const int from = accept(listener_, nullptr, nullptr);
        const int to = shut_ ? -1 : connect_to(to_);
        if (to < 0) {
          close(from);
        } else {
          const int now = 1;
          for (const int end : {from, to}) setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now);
          const std::lock_guard lock(mutex_);
          pairs_.push_back({from, to});
        }
      }
      if (stalled_) continue;
      const std::lock_guard lock(mutex_);
      pairs_.remove_if([this](const Pair& pair) {
        const bool both = pass(pair[0], pair[1], ways_[0]) && pass(pair[1], pair[0], ways_[1]);
        if (!both) close_both(pair);
        return !both;
      });
    }
  }

  /// Passes on the bytes that have arrived. Returns false if the connection has ended.
  static bool pass(int from, int to, Way& way) {
    constexpr ssize_t kLarge = 16384;
    std::array<char, 65536> bytes{};
    const ssize_t size = recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (size > kLarge && way.damage.exchange(false)) bytes[static_cast<size_t>(size) / 2] ^= 4;
    if (size == 0) return false;
    way.passed += static_cast<uint64_t>(size);
    return send_all(to, bytes.data(), static_cast<size_t>(size));
  }

  const std::string to_;
  int listener_;
  uint16_t port_ = 0;
  std::atomic<bool> end_{false};
  std::atomic<bool> stalled_{false};
  std::atomic<bool> shut_{false};
  std::array<Way, 2> ways_;  // to the server, to the client
  std::mutex mutex_;
  std::list<Pair> pairs_;
  std::thread thread_;
};

Relay::Relay(const std::string& to) : impl_(std::make_unique<Impl>(to)) {}
Relay::~Relay() = default;
std::string Relay::address() const { return Address{.host = "127.0.0.1", .port = impl_->port()}.text(); }
void Relay::cut() { impl_->cut(); }
void Relay::stall(bool stalled) { impl_->stall(stalled); }
void Relay::shut(bool shut) { impl_->shut(shut); }
void Relay::damage_next(bool to_server) { impl_->damage_next(to_server); }
uint64_t Relay::passed(bool to_server) const { return impl_->passed(to_server); }

RawClient::RawClient(const std::string& address, const std::string& bytes) : socket_(connect_to(address)) {
  send_all(socket_, bytes.data(), bytes.size());
}
RawClient::~RawClient() { close(socket_); }

void RawClient::wait_for_end() {
  std::array<char, 1024> bytes{};
  while (recv(socket_, bytes.data(), bytes.size(), 0) > 0) {
  }
}

}  // namespace telar::test
