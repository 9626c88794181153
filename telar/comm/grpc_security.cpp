#include "telar/comm/grpc_security.h"

#include <grpc/support/log.h>
#include <malloc.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "telar/comm/greeting.h"
#include "telar/comm/printable.h"
#include "telar/io/text_file.h"

namespace telar {
namespace {

constexpr char kTokenKey[] = "telar-token";
constexpr char kVersionKey[] = "telar-protocol";
/// Parts of gRPC's message if a server closes a connection before it is made.
constexpr char kNotConnected[] = "failed to connect";
constexpr char kClosed[] = "Socket closed";
constexpr size_t kLongestReason = 1000;
constexpr char kWrongToken[] = "the token is not the one of this job";

/// gRPC receives into malloc blocks of 8 and 64 KB and frees them message by message. By default, glibc
/// returns memory to the system whenever 128 KB are free, and every page is then faulted in and zeroed again.
/// That took half of the time of a push and pull. These are the values that glibc itself adopts once a
/// program has freed a block of 32 MB.
constexpr int kTrimThreshold = 64 << 20;
constexpr int kMmapThreshold = 32 << 20;
/// gRPC allocates and frees on many threads. With glibc's default of one heap per thread, each heap keeps its
/// peak size. A server of 40 MB to which four members pushed then held 68 to 110 MB in addition; with one
/// heap it held 22 to 30 MB, at the same speed.
constexpr int kHeaps = 1;

/// Takes effect once per process.
void prepare_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    // gRPC prints errors that it also returns, and the library must not print. A user who sets GRPC_VERBOSITY
    // wants to see them.
    if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
    mallopt(M_TRIM_THRESHOLD, kTrimThreshold);
    mallopt(M_MMAP_THRESHOLD, kMmapThreshold);
    mallopt(M_ARENA_MAX, kHeaps);
  });
}

std::string read_pem(const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  std::string text;
  try {
    text = read_text_file(path, "the certificate");
  } catch (const Error& error) {
    throw user_error(
        "{}; the folder of certificates must contain ca.pem, cert.pem and key.pem, which scripts/certs makes",
        error.what());
  }
  if (text.find("-----BEGIN ") == std::string::npos)
    throw user_error("{} is not in PEM format: it has no line '-----BEGIN …'; scripts/certs makes such files",
                     path);
  return text;
}

struct Pems {
  std::string ca;
  std::string cert;
  std::string key;

  explicit Pems(const std::string& folder)
      : ca(read_pem(folder, "ca.pem")),
        cert(read_pem(folder, "cert.pem")),
        key(read_pem(folder, "key.pem")) {}
};

std::shared_ptr<grpc::ServerCredentials> server_credentials(const Security& security) {
  if (security.certificates.empty()) return grpc::InsecureServerCredentials();
  const Pems pems(security.certificates);
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = pems.ca;
  options.pem_key_cert_pairs.push_back({pems.key, pems.cert});
  return grpc::SslServerCredentials(options);
}

/// gRPC does not report certificates that it cannot use for sockets that others have accepted, only for ports
/// of its own.
bool usable(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server) server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
  return server != nullptr;
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const Security& security) {
  if (security.certificates.empty()) return grpc::InsecureChannelCredentials();
  const Pems pems(security.certificates);
  return grpc::SslCredentials(
      {.pem_root_certs = pems.ca, .pem_private_key = pems.key, .pem_cert_chain = pems.cert});
}

/// Settings that both sides of a connection share; `set` takes a name and a number.
template <typename Set>
void set_arguments(double keepalive_seconds, const Set& set) {
  // By default, gRPC estimates bandwidth × delay and sizes its windows accordingly. With the estimate, a
  // server to which four members pushed 40 MB each held 415 MB instead of 124 MB. The window below is the
  // amount that one stream may have in transit on a network with a delay.
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 4 << 20);
  // Detects a host that vanished without closing its connections (power, a cut cable, a moved pod). Without
  // these probes, a stream would wait for TCP's timeout: a quarter of an hour.
  const int milliseconds = static_cast<int>(keepalive_seconds * 1e3);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, milliseconds);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, milliseconds);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A server ends a connection that is probed more often than this.
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 500);
}

std::string_view value_of(const grpc::ServerContextBase& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

/// The server's Door did not accept the greeting.
bool token_refused(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message().find(kGreetingRefusedStatus) != std::string::npos;
}

}  // namespace

SecureServerBuilder::SecureServerBuilder(const std::string& address, Security security, int max_message_bytes,
                                         double keepalive_seconds)
    : address_(Address::parse(address)), security_(std::move(security)) {
  prepare_grpc();
  check_listening(address, security_);
  builder_.SetMaxReceiveMessageSize(max_message_bytes);
  builder_.SetMaxSendMessageSize(max_message_bytes);
  // Of TLS, after the greeting.
  builder_.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              static_cast<int>(Door::kGreetingSeconds * 1e3));
  set_arguments(keepalive_seconds,
                [&](const char* name, int value) { builder_.AddChannelArgument(name, value); });
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  const std::shared_ptr<grpc::ServerCredentials> credentials = server_credentials(security_);
  if (!security_.certificates.empty() && !usable(credentials))
    throw user_error(
        "Listening on {} is not possible: the certificates may be damaged, or not belong together",
        address_.text());
  acceptor_ = builder_.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, credentials);
}

std::unique_ptr<SecureServer> SecureServerBuilder::start(std::function<void(const std::string&)> say) {
  auto door = std::make_unique<Door>(address_);
  address_.port = door->port();
  std::unique_ptr<grpc::Server> server = builder_.BuildAndStart();
  if (!server) throw run_error("gRPC cannot start a server on {}", address_.text());
  door->open(
      security_,
      [acceptor = acceptor_](int socket) {
        grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
        connection.fd = socket;
        acceptor->HandleNewConnection(&connection);
      },
      std::move(say));
  return std::make_unique<SecureServer>(std::move(server), std::move(door));
}

std::string SecureServerBuilder::address() const { return address_.text(); }

SecureServer::SecureServer(std::unique_ptr<grpc::Server> server, std::unique_ptr<Door> door)
    : server_(std::move(server)), door_(std::move(door)) {}

void SecureServer::shutdown(std::chrono::milliseconds patience) {
  door_.reset();
  server_->Shutdown(std::chrono::system_clock::now() + patience);
}

void SecureServer::wait() { server_->Wait(); }

std::shared_ptr<grpc::Channel> secure_channel(const std::string& address, const Security& security,
                                              int max_message_bytes, double keepalive_seconds,
                                              const std::string& certified) {
  prepare_grpc();
  check_connecting(address, security);
  grpc::ChannelArguments arguments;
  if (!certified.empty()) arguments.SetSslTargetNameOverride(certified);
  arguments.SetMaxReceiveMessageSize(max_message_bytes);
  arguments.SetMaxSendMessageSize(max_message_bytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Despite its name, this limits the duration of one attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  // A web proxy (http_proxy) is not for connections between processes of a job.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetString(kGreetingHostArgument, kGreetingHost);
  arguments.SetString(kGreetingHeadersArgument, greeting_headers(security));
  set_arguments(keepalive_seconds, [&](const char* name, int value) { arguments.SetInt(name, value); });
  // A server that restarts on another host keeps its name but has a new address.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  return grpc::CreateCustomChannel(Address::parse(address).text(), channel_credentials(security), arguments);
}

void introduce(grpc::ClientContext& context, const Security& security) {
  if (!security.token.empty()) context.AddMetadata(kTokenKey, security.token);
  context.AddMetadata(kVersionKey, std::to_string(kProtocolVersion));
}

grpc::Status check_caller(const grpc::ServerContextBase& context, const Security& security) {
  if (!same_secret(value_of(context, kTokenKey), security.token))
    return {grpc::StatusCode::UNAUTHENTICATED, kWrongToken};
  const std::string_view version = value_of(context, kVersionKey);
  if (version != std::to_string(kProtocolVersion)) {
    const std::string_view theirs = version.empty() || version.size() > 10 ? "unknown" : version;
    return {
        grpc::StatusCode::FAILED_PRECONDITION,
        fmt::format("the protocol there has version {}, here {}; use the same release of telar everywhere",
                    kProtocolVersion, theirs)};
  }
  return grpc::Status::OK;
}

bool is_refusal(const grpc::Status& status) {
  if (token_refused(status)) return true;
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DATA_LOSS:
    case grpc::StatusCode::INTERNAL: return false;
    default: return true;
  }
}

std::string reason_of(const grpc::Status& status) {
  std::string reason = printable(status.error_message(), kLongestReason);
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      reason.find(kNotConnected) != std::string::npos && reason.ends_with(kClosed))
    reason += fmt::format(
        "; it closed the connection without an answer to the greeting: another program listens there, or its protocol has version {}, here {} (use the same release of telar everywhere)",
        kLastVersionWithoutGreeting, kProtocolVersion);
  return reason;
}

Error error_of(const grpc::Status& status, const std::string& who) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED)
    return user_error(
        "{} does not know this call: another program listens there, or another release of telar", who);
  if (token_refused(status)) return user_error("{} refused: {}", who, kWrongToken);
  if (is_refusal(status)) return user_error("{} refused: {}", who, reason_of(status));
  return run_error("{} cannot be reached: {}", who, reason_of(status));
}

}  // namespace telar
