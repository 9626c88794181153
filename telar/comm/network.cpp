#include "telar/comm/network.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "telar/core/error.h"

namespace telar {
namespace {

constexpr size_t kShortestToken = 16;
constexpr size_t kLongestToken = 1024;
constexpr size_t kLongestName = 253;  // RFC 1035, section 2.3.4

std::optional<in_addr> ipv4(const std::string& host) {
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) != 1) return std::nullopt;
  return address;
}

std::optional<in6_addr> ipv6(const std::string& host) {
  in6_addr address{};
  if (inet_pton(AF_INET6, host.c_str(), &address) != 1) return std::nullopt;
  return address;
}

/// Rejects, among others, what gRPC would read as a URI ("unix:/tmp/x:1").
bool is_name(const std::string& host) {
  return !host.empty() && host.size() <= kLongestName && host.front() != '-' &&
         std::ranges::all_of(
             host, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_'; });
}

Error no_address(const std::string& text, const std::string& why) {
  return user_error(
      "'{}' is not a network address: {}; it must be HOST:PORT, for example 127.0.0.1:7000, [::1]:7000 or node1:7000",
      text, why);
}

void check_token(const std::string& token) {
  if (token.empty()) return;
  if (token.size() < kShortestToken || token.size() > kLongestToken)
    throw user_error("The job's token has {} characters; it must have {} to {}", token.size(), kShortestToken,
                     kLongestToken);
  // HTTP/2 headers carry nothing else (RFC 9113, section 8.2.1), and leading and trailing blanks would be
  // lost.
  if (!std::ranges::all_of(token, [](unsigned char c) { return c > 0x20 && c < 0x7f; }))
    throw user_error("The job's token may contain only printable ASCII characters and no blanks");
}

/// What is missing for communication beyond the loopback; empty: nothing.
std::string_view missing(const Security& security) {
  if (security.certificates.empty())
    return security.token.empty() ? "certificates and a token" : "certificates";
  return security.token.empty() ? "a token" : "";
}

void check_safe(const Address& address, const std::string& doing, const Security& security) {
  check_token(security.token);
  const std::string_view needs = missing(security);
  if (address.loopback() || needs.empty() || security.insecure_network) return;
  throw user_error(
      "{} {} is not safe without {}: others on the network could read and change this training; give both (scripts/certs makes certificates), stay on the loopback (127.0.0.1), or permit it with --insecure-network",
      doing, address.text(), needs);
}

}  // namespace

Address Address::parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw no_address(text, "it has no port");
  Address address;
  address.host = text.substr(0, colon);
  const std::string digits = text.substr(colon + 1);
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, address.port);
  if (error != std::errc() || stop != end)
    throw no_address(text, fmt::format("'{}' is not a port from 0 to 65535", digits));

  if (address.host.size() >= 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
    if (!ipv6(address.host)) throw no_address(text, "the text in the brackets is not an IPv6 address");
  } else if (ipv6(address.host)) {
    throw no_address(text, "an IPv6 address must be in brackets");
  } else if (!is_name(address.host)) {
    throw no_address(text, fmt::format("'{}' is neither a host name nor an IP address", address.host));
  }
  return address;
}

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool Address::loopback() const {
  if (const auto address = ipv4(host)) return (ntohl(address->s_addr) >> 24) == 127;
  if (const auto address = ipv6(host))
    return std::memcmp(&*address, &in6addr_loopback, sizeof(in6_addr)) == 0;
  return host == "localhost";
}

bool on_this_host(const std::string& address) {
  const Address parsed = Address::parse(address);
  if (parsed.loopback()) return true;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(parsed.host.c_str(), nullptr, &wanted, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  // Only a host's own addresses can be bound.
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int descriptor = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    const bool bound = descriptor >= 0 && bind(descriptor, one->ai_addr, one->ai_addrlen) == 0;
    if (descriptor >= 0) close(descriptor);
    if (bound) return true;
  }
  return false;
}

void check_listening(const std::string& address, const Security& security) {
  check_safe(Address::parse(address), "Listening on", security);
}

void check_connecting(const std::string& address, const Security& security) {
  const Address parsed = Address::parse(address);
  if (parsed.port == 0) throw no_address(address, "port 0 cannot be connected to");
  check_safe(parsed, "Connecting to", security);
}

bool safe_from_damage(const std::string& address, const Security& security) {
  return !security.certificates.empty() || Address::parse(address).loopback();
}

}  // namespace telar
