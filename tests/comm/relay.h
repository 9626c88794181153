#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace telar::test {

/// A TCP relay on the loopback. Connections to address() are passed on to `to` until they are cut or stall.
class Relay {
 public:
  explicit Relay(const std::string& to);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  std::string address() const;
  /// Ends all present connections.
  void cut();
  /// While stalled, connections stay open but pass no data, as with a stopped process or a lost host.
  void stall(bool stalled);
  /// While shut, it refuses new connections.
  void shut(bool shut);
  /// Changes one bit of the next large piece of data on its way to the server, or to the client.
  void damage_next(bool to_server);
  /// Bytes that have passed to the server, or to the client.
  uint64_t passed(bool to_server) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connects to the address, sends the bytes, and keeps the connection until destruction.
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
