#pragma once

#include <cstdint>
#include <vector>

#include "telar/comm/network.h"

namespace telar {

/// Sockets that listen at all addresses of a host, and do not block.
class Listening {
 public:
  /// Port 0: any free port, the same at all addresses. Throws Error (user) with the system's reason.
  explicit Listening(const Address& address);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  const std::vector<int>& sockets() const { return sockets_; }
  uint16_t port() const { return port_; }

 private:
  std::vector<int> sockets_;
  uint16_t port_ = 0;
};

}  // namespace telar
