#include "telar/observe/metrics_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <list>
#include <string_view>
#include <utility>
#include <vector>

#include "telar/core/clock.h"
#include "telar/core/error.h"

namespace telar {

namespace {

constexpr int kWaitForFiles = 100;  // ms

using ServerClock = std::chrono::steady_clock;

std::string http_response(std::string_view status, std::string_view text) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, text.size(), text);
}

}  // namespace

std::string metrics_response(const std::string& request, const std::function<std::string()>& page) {
  const std::string line = request.substr(0, request.find("\r\n"));
  const size_t first = line.find(' ');
  const size_t second = first == std::string::npos ? first : line.find(' ', first + 1);
  if (second == std::string::npos || line.compare(second + 1, 5, "HTTP/") != 0)
    return http_response("400 Bad Request", "this is not a request of HTTP\n");
  if (line.substr(0, first) != "GET")
    return http_response("405 Method Not Allowed", "only GET is served here\n");
  std::string path = line.substr(first + 1, second - first - 1);
  path.resize(std::min(path.size(), path.find('?')));
  if (path != "/" && path != "/metrics")
    return http_response("404 Not Found", "the metrics are at /metrics\n");
  return http_response("200 OK", page());
}

/// A connection: its request is read, answered, and then what the client still sends is read, because a
/// connection that is closed with unread bytes is reset, and the client might lose the answer.
class MetricsServer::Client {
 public:
  explicit Client(int socket) : socket_(socket) {}
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  pollfd event() const {
    return {socket_, static_cast<short>(state_ == State::answering ? POLLOUT : POLLIN), 0};
  }
  double seconds_left() const { return kSeconds - seconds_since(since_); }

  /// Does what can be done without waiting. False: the connection is over.
  bool go_on(const std::function<std::string()>& page) {
    if (state_ == State::asking && !read_request()) return false;
    if (state_ == State::asking && is_complete()) {
      answer_ = metrics_response(request_, page);
      state_ = State::answering;
    }
    if (state_ == State::answering && !send_answer()) return false;
    return state_ != State::ending || read_rest();
  }

 private:
  enum class State : uint8_t { asking, answering, ending };

  bool is_complete() const {
    return ended_ || request_.size() >= kLongestRequest || request_.find("\r\n\r\n") != std::string::npos;
  }

  /// False: there is no request.
  bool read_request() {
    std::array<char, 1024> bytes{};
    while (!is_complete()) {
      const ssize_t count = recv(socket_, bytes.data(), bytes.size(), 0);
      if (count < 0) return would_wait();
      ended_ = count == 0;
      request_.append(bytes.data(), static_cast<size_t>(count));
    }
    return !request_.empty();
  }

  bool send_answer() {
    while (sent_ < answer_.size()) {
      const ssize_t count = send(socket_, answer_.data() + sent_, answer_.size() - sent_, MSG_NOSIGNAL);
      if (count < 0) return would_wait();
      sent_ += static_cast<size_t>(count);
    }
    shutdown(socket_, SHUT_WR);
    state_ = State::ending;
    return true;
  }

  bool read_rest() {
    std::array<char, 1024> bytes{};
    ssize_t count = 0;
    while ((count = recv(socket_, bytes.data(), bytes.size(), 0)) > 0) {
    }
    return count < 0 && would_wait();
  }

  static bool would_wait() { return errno == EAGAIN || errno == EINTR; }

  int socket_;
  ServerClock::time_point since_ = ServerClock::now();
  std::string request_;
  std::string answer_;
  size_t sent_ = 0;
  State state_ = State::asking;
  bool ended_ = false;  ///< the client sends no more
};

MetricsServer::MetricsServer(const std::string& address)
    : host_(Address::parse(address).host),
      listening_(Address::parse(address)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw run_error("cannot create an eventfd: {}", std::strerror(errno));
}

void MetricsServer::serve(std::function<std::string()> page) {
  page_ = std::move(page);
  thread_ = std::thread([this] { run(); });
}

MetricsServer::~MetricsServer() {
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  close(wake_);
}

void MetricsServer::run() {
  std::list<Client> clients;
  while (true) {
    std::vector<pollfd> events = {{wake_, POLLIN, 0}};
    for (const int listener : listening_.sockets()) events.push_back({listener, POLLIN, 0});
    double wait = kSeconds;
    for (const Client& client : clients) {
      events.push_back(client.event());
      wait = std::min(wait, client.seconds_left());
    }
    poll(events.data(), events.size(),
         clients.empty() ? -1 : static_cast<int>(std::ceil(1e3 * std::max(0.0, wait))));
    if (events.front().revents != 0) return;
    std::erase_if(clients,
                  [&](Client& client) { return client.seconds_left() <= 0 || !client.go_on(page_); });
    accept_clients(clients);
  }
}

void MetricsServer::accept_clients(std::list<Client>& clients) {
  for (const int listener : listening_.sockets()) {
    const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client >= 0) {
      if (clients.size() == kClients) clients.pop_front();
      clients.emplace_back(client);
      continue;
    }
    const bool gone = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    pollfd wake = {wake_, POLLIN, 0};
    if (!gone) poll(&wake, 1, kWaitForFiles);  // too many files are open
  }
}

}  // namespace telar
