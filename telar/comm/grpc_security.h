#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "telar/comm/network.h"
#include "telar/core/error.h"

// Applies Security to gRPC, in the same way on both sides of each of Telar's services. Only for sources in
// telar/comm; other floors do not include gRPC headers.

namespace telar {

/// Seconds without data after which a connection is probed, and seconds that the answer to a probe may take.
/// A vanished host is noticed within twice this time. It must exceed the time for which a busy machine may
/// keep a process from running.
inline constexpr double kKeepaliveSeconds = 10;

/// Builds a server that listens at `address` under the rules of `security`. Add services (and completion
/// queues) to the builder, then call start().
class SecureServerBuilder {
 public:
  /// Throws Error (user) if the address is invalid or not safe, or if the certificates cannot be read.
  SecureServerBuilder(const std::string& address, const Security& security, int max_message_bytes,
                      double keepalive_seconds = kKeepaliveSeconds);

  grpc::ServerBuilder& grpc() { return builder_; }
  /// Throws Error (user) with the system's reason if the address cannot be listened on.
  std::unique_ptr<grpc::Server> start();
  /// After start(): the address with the actual port.
  std::string address() const;

 private:
  Address address_;
  int port_ = 0;
  grpc::ServerBuilder builder_;
};

/// A connection that is not shared with other channels of this process. When it breaks, it is restored: first
/// after 0.1 s, then at most once a second. Throws Error (user) if the address is invalid or the certificates
/// cannot be read.
std::shared_ptr<grpc::Channel> secure_channel(const std::string& address, const Security& security,
                                              int max_message_bytes,
                                              double keepalive_seconds = kKeepaliveSeconds);

/// Client side: adds the token and the protocol version to a call.
void introduce(grpc::ClientContext& context, const Security& security);
/// Server side: the first check in every call. If the result is not OK, return it (UNAUTHENTICATED: wrong
/// token; FAILED_PRECONDITION: other version). Takes the same time for every wrong token of the same length.
grpc::Status check_caller(const grpc::ServerContextBase& context, const Security& security);

/// True if the other side is running and has rejected the call, so a retry does not help. False if it is
/// unreachable or was stopped.
bool is_refusal(const grpc::Status& status);
/// Returns "WHO refused: …" (user) or "WHO cannot be reached: …" (run) for a status that is not OK.
Error error_of(const grpc::Status& status, const std::string& who);

}  // namespace telar
