#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "telar/comm/listening.h"

namespace telar {

/// Serves one page of text over HTTP, at / and /metrics, on a thread of its own: for Prometheus. It reads
/// nothing of a request but its first line, and answers one client after another. A client has kSeconds; so
/// clients that send nothing delay others by kSeconds each, and the address must be one that strangers cannot
/// reach.
class MetricsServer {
 public:
  static constexpr double kSeconds = 2;
  static constexpr size_t kLongestRequest = 8192;

  /// `address`: HOST:PORT; port 0: any free one. `page` is called for each request, by the server's thread.
  /// Throws Error (user) if it cannot listen there.
  MetricsServer(const std::string& address, std::function<std::string()> page);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  uint16_t port() const { return listening_.port(); }

 private:
  void run();
  void answer(int client);

  Listening listening_;
  std::function<std::string()> page_;
  int wake_;  ///< an eventfd that becomes readable when the thread shall end
  std::thread thread_;
};

/// What a server answers to a request of HTTP.
std::string metrics_response(const std::string& request, const std::function<std::string()>& page);

}  // namespace telar
