#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace telar::test {

/// A TCP relay on the loopback: what connects to address() reaches `to`, until the network is cut or stalls.
class Relay {
 public:
  explicit Relay(const std::string& to);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string address() const;
  /// Ends all connections that there are.
  void cut();
  /// Connections stay, and nothing passes (a stopped process, a lost host).
  void stall(bool stalled);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connects to the address, sends the bytes, and stays connected until it is destroyed.
class RawClient {
 public:
  RawClient(const std::string& address, const std::string& bytes);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  /// Waits until the other side ends the connection.
  void wait_for_end();

 private:
  int socket_;
};

}  // namespace telar::test
