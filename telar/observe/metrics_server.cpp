#include "telar/observe/metrics_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
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

/// Waits until the client can be read or written; false when its time is over or the server ends.
bool wait_for_client(int client, short event, int wake, ServerClock::time_point since) {
  const double left = MetricsServer::kSeconds - seconds_since(since);
  std::array<pollfd, 2> events = {pollfd{client, event, 0}, pollfd{wake, POLLIN, 0}};
  if (left <= 0) return false;
  const int ready = poll(events.data(), events.size(), static_cast<int>(std::ceil(1e3 * left)));
  return ready > 0 && events[1].revents == 0;
}

/// The request up to the empty line after its headers; without it, if the client sends no more.
std::string read_request(int client, int wake, ServerClock::time_point since) {
  std::string request;
  std::array<char, 1024> bytes{};
  while (request.size() < MetricsServer::kLongestRequest && request.find("\r\n\r\n") == std::string::npos) {
    if (!wait_for_client(client, POLLIN, wake, since)) return "";
    const ssize_t count = recv(client, bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) break;
    request.append(bytes.data(), static_cast<size_t>(count));
  }
  return request;
}

void write_response(int client, std::string_view text, int wake, ServerClock::time_point since) {
  while (!text.empty() && wait_for_client(client, POLLOUT, wake, since)) {
    const ssize_t count = send(client, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
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

MetricsServer::MetricsServer(const std::string& address, std::function<std::string()> page)
    : listening_(Address::parse(address)),
      page_(std::move(page)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw run_error("cannot create an eventfd: {}", std::strerror(errno));
  thread_ = std::thread([this] { run(); });
}

MetricsServer::~MetricsServer() {
  eventfd_write(wake_, 1);
  thread_.join();
  close(wake_);
}

void MetricsServer::run() {
  std::vector<pollfd> events;
  for (const int listener : listening_.sockets()) events.push_back({listener, POLLIN, 0});
  events.push_back({wake_, POLLIN, 0});
  while (true) {
    poll(events.data(), events.size(), -1);
    if (events.back().revents != 0) return;
    for (const int listener : listening_.sockets()) {
      const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (client < 0) {
        const bool gone = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        if (!gone) poll(&events.back(), 1, kWaitForFiles);  // too many files are open
        continue;
      }
      answer(client);
      close(client);
    }
  }
}

void MetricsServer::answer(int client) {
  const auto since = ServerClock::now();
  const std::string request = read_request(client, wake_, since);
  if (request.empty()) return;
  write_response(client, metrics_response(request, page_), wake_, since);
  // Closed with unread bytes, the connection would be reset, and the client might lose the answer.
  shutdown(client, SHUT_WR);
  std::array<char, 1024> rest{};
  while (wait_for_client(client, POLLIN, wake_, since) && recv(client, rest.data(), rest.size(), 0) > 0) {
  }
}

}  // namespace telar
