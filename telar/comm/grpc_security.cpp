#include "telar/comm/grpc_security.h"

#include <grpc/support/log.h>
#include <malloc.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string_view>

namespace telar {
namespace {

constexpr char kTokenKey[] = "telar-token";
constexpr char kVersionKey[] = "telar-protocol";

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
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad())
    throw user_error(
        "The file {} cannot be read ({}); the folder of certificates must contain ca.pem, cert.pem and key.pem, which scripts/certs makes",
        path, std::strerror(errno));
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

/// Returns the system's reason why listening fails there; gRPC does not report it.
std::string why_not(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found); error != 0)
    return gai_strerror(error);
  std::string reason;
  for (const addrinfo* one = found; one != nullptr && reason.empty(); one = one->ai_next) {
    const int listener = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    if (listener < 0 || bind(listener, one->ai_addr, one->ai_addrlen) != 0) reason = std::strerror(errno);
    if (listener >= 0) close(listener);
  }
  freeaddrinfo(found);
  return reason.empty() ? "the certificates may be damaged, or not belong together" : reason;
}

/// Compares all characters, so the time does not depend on where the first difference is.
bool same_secret(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    difference |= static_cast<unsigned>(given[i] ^ other);
  }
  return difference == 0;
}

std::string_view value_of(const grpc::ServerContextBase& context, const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace

SecureServerBuilder::SecureServerBuilder(const std::string& address, const Security& security,
                                         int max_message_bytes, double keepalive_seconds)
    : address_(Address::parse(address)) {
  prepare_grpc();
  check_listening(address, security);
  builder_.SetMaxReceiveMessageSize(max_message_bytes);
  builder_.SetMaxSendMessageSize(max_message_bytes);
  // Otherwise two servers could share one port and its connections; the second server must fail instead.
  builder_.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  set_arguments(keepalive_seconds,
                [&](const char* name, int value) { builder_.AddChannelArgument(name, value); });
  builder_.AddListeningPort(address_.text(), server_credentials(security), &port_);
}

std::unique_ptr<grpc::Server> SecureServerBuilder::start() {
  std::unique_ptr<grpc::Server> server = builder_.BuildAndStart();
  if (!server || port_ == 0)
    throw user_error("Listening on {} is not possible: {}", address_.text(), why_not(address_));
  return server;
}

std::string SecureServerBuilder::address() const {
  return Address{.host = address_.host, .port = static_cast<uint16_t>(port_)}.text();
}

std::shared_ptr<grpc::Channel> secure_channel(const std::string& address, const Security& security,
                                              int max_message_bytes, double keepalive_seconds) {
  prepare_grpc();
  check_connecting(address, security);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(max_message_bytes);
  arguments.SetMaxSendMessageSize(max_message_bytes);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Despite its name, this limits the duration of one attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  // A web proxy (http_proxy) is not for connections between processes of a job.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
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
    return {grpc::StatusCode::UNAUTHENTICATED, "the token is not the one of this job"};
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
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL: return false;
    default: return true;
  }
}

Error error_of(const grpc::Status& status, const std::string& who) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED)
    return user_error(
        "{} does not know this call: another program listens there, or another release of telar", who);
  if (is_refusal(status)) return user_error("{} refused: {}", who, status.error_message());
  return run_error("{} cannot be reached: {}", who, status.error_message());
}

}  // namespace telar
