#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include "telar/comm/listening.h"

namespace telar {

/// Serves one page of text over HTTP, at / and /metrics, on a thread of its own: for Prometheus. It reads
/// nothing of a request but its first line. No client waits for another: up to kClients are served at the
/// same time, each for at most kSeconds; one more takes the place of the one that came first.
class MetricsServer {
 public:
  static constexpr double kSeconds = 2;
  static constexpr size_t kClients = 64;
  static constexpr size_t kLongestRequest = 8192;

  /// Listens at HOST:PORT; port 0: any free one. Clients wait until serve(). Throws Error (user) if it cannot
  /// listen there.
  explicit MetricsServer(const std::string& address);
  MetricsServer(const std::string& address, std::function<std::string()> page) : MetricsServer(address) {
    serve(std::move(page));
  }
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// Once. `page` is called for each request, by the server's thread.
  void serve(std::function<std::string()> page);

  /// HOST:PORT where it listens; the port is the one that was found if 0 was asked for.
  std::string address() const { return Address{.host = host_, .port = port()}.text(); }
  uint16_t port() const { return listening_.port(); }

 private:
  class Client;
  void run();
  void accept_clients(std::list<Client>& clients);

  std::string host_;
  Listening listening_;
  std::function<std::string()> page_;
  int wake_;  ///< an eventfd that becomes readable when the thread shall end
  std::thread thread_;
};

/// What a server answers to a request of HTTP.
std::string metrics_response(const std::string& request, const std::function<std::string()>& page);

}  // namespace telar
