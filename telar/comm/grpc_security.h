#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "telar/comm/network.h"
#include "telar/core/error.h"

// Where gRPC meets Security: the same on both sides of every service of ours. For sources of telar/comm alone; other floors do not
// see gRPC.

namespace telar {

/// How often a connection is asked whether its other side is still there, when nothing comes from it, and how long an answer may take: a
/// host that vanished without a word is noticed within twice so long. Longer than a process may be kept from running on a busy machine.
inline constexpr double kKeepaliveSeconds = 10;

/// A server that listens at `address` as `security` says. Add services (and completion queues) to the builder, then start().
class SecureServerBuilder {
 public:
  /// Throws Error (user): an address that cannot be used or is not safe, certificates that cannot be read.
  SecureServerBuilder(const std::string& address, const Security& security, int max_message_bytes,
                      double keepalive_seconds = kKeepaliveSeconds);

  grpc::ServerBuilder& grpc() { return builder_; }
  /// Throws Error (user), with the system's reason, when one cannot listen there.
  std::unique_ptr<grpc::Server> start();
  /// With the port that it got, after start().
  std::string address() const;

 private:
  Address address_;
  int port_ = 0;
  grpc::ServerBuilder builder_;
};

/// A connection of its own (not shared with other channels of this process), that is made again when it breaks: 0.1 s later, then
/// at most every second. Throws Error (user): an address that cannot be used, certificates that cannot be read.
std::shared_ptr<grpc::Channel> secure_channel(const std::string& address, const Security& security,
                                              int max_message_bytes,
                                              double keepalive_seconds = kKeepaliveSeconds);

/// Client: what every call carries (token, version of the protocol).
void introduce(grpc::ClientContext& context, const Security& security);
/// Server: the first thing in every call. Not OK (UNAUTHENTICATED: another token, FAILED_PRECONDITION: another version): return it.
/// Takes as long for any wrong token of the same length.
grpc::Status check_caller(const grpc::ServerContextBase& context, const Security& security);

/// The other side is there and will not have us: waiting does not help. Otherwise it is away (or was stopped).
bool is_refusal(const grpc::Status& status);
/// "WHO refused: …" (user) or "WHO cannot be reached: …" (run), for a status that is not OK.
Error error_of(const grpc::Status& status, const std::string& who);

}  // namespace telar
