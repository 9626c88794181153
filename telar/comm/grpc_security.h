#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "telar/comm/door.h"
#include "telar/comm/network.h"
#include "telar/core/error.h"

// Applies Security to gRPC, in the same way on both sides of each of Telar's services. Only for sources in
// telar/comm; other floors do not include gRPC headers.

namespace telar {

/// Seconds without data after which a connection is probed, and seconds that the answer to a probe may take.
/// A vanished host is noticed within twice this time. It must exceed the time for which a busy machine may
/// keep a process from running.
inline constexpr double kKeepaliveSeconds = 10;

/// A running server, and the Door through which clients reach it.
class SecureServer {
 public:
  SecureServer(std::unique_ptr<grpc::Server> server, std::unique_ptr<Door> door);
  /// Ends all connections.
  void shutdown(std::chrono::milliseconds patience = {});
  /// After shutdown(): waits until all calls have ended.
  void wait();

 private:
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Door> door_;
};

/// Builds a server that listens at `address` under the rules of `security`. Add services (and completion
/// queues) to the builder, then call start().
class SecureServerBuilder {
 public:
  /// Throws Error (user) if the address is invalid or not safe, or if the certificates cannot be read.
  SecureServerBuilder(const std::string& address, Security security, int max_message_bytes,
                      double keepalive_seconds = kKeepaliveSeconds);

  grpc::ServerBuilder& grpc() { return builder_; }
  /// Throws Error (user) with the system's reason if the address cannot be listened on.
  /// `say` gets messages about clients that the Door refuses; it may be empty.
  std::unique_ptr<SecureServer> start(std::function<void(const std::string&)> say);
  /// After start(): the address with the actual port.
  std::string address() const;

 private:
  Address address_;
  Security security_;
  grpc::ServerBuilder builder_;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
};

/// A connection that is not shared with other channels of this process. When it breaks, it is restored: first
/// after 0.1 s, then at most once a second. Throws Error (user) if the address is invalid or the certificates
/// cannot be read. `certified`: the name that the server's certificate must have; empty: its host's.
std::shared_ptr<grpc::Channel> secure_channel(const std::string& address, const Security& security,
                                              int max_message_bytes,
                                              double keepalive_seconds = kKeepaliveSeconds,
                                              const std::string& certified = {});

/// Client side: adds the token and the protocol version to a call.
void introduce(grpc::ClientContext& context, const Security& security);
/// Server side: the first check in every call. If the result is not OK, return it (UNAUTHENTICATED: wrong
/// token; FAILED_PRECONDITION: other version). Takes the same time for every wrong token of the same length.
grpc::Status check_caller(const grpc::ServerContextBase& context, const Security& security);

/// True if the other side is running and has rejected the call, so a retry does not help. False if it is
/// unreachable or was stopped.
bool is_refusal(const grpc::Status& status);
/// The status as a text for a message: why a server cannot be reached, or has ended a call.
std::string reason_of(const grpc::Status& status);
/// Returns "WHO refused: …" (user) or "WHO cannot be reached: …" (run) for a status that is not OK.
Error error_of(const grpc::Status& status, const std::string& who);

}  // namespace telar
