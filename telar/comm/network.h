#pragma once

#include <cstdint>
#include <string>

namespace telar {

/// How the processes of one job trust each other over the network. The same for parameter servers, coordinator and workers.
struct Security {
  /// Known to the processes of this job alone and sent with every call; at least 16 printable characters, no blanks. Empty: none.
  std::string token;
  /// A folder with ca.pem, cert.pem and key.pem (scripts/certs makes them): both sides show a certificate of that authority.
  /// Empty: no TLS.
  std::string certificates;
  /// Listening and connecting beyond the loopback without TLS and token is refused unless this is said by name
  /// (--insecure-network).
  bool insecure_network = false;
};

/// Version of what is spoken between processes. Another version is refused with a sentence that says both.
inline constexpr int kProtocolVersion = 1;

/// Where a process listens: "HOST:PORT". The host is a name, an IPv4 address, or an IPv6 address in brackets: "[::1]:7000".
struct Address {
  std::string host;  ///< without brackets
  uint16_t port = 0;

  /// Throws Error (user) when the text is no address.
  static Address parse(const std::string& text);
  std::string text() const;
  /// 127.0.0.0/8, ::1 and `localhost`. Any other name counts as beyond the loopback, whatever it resolves to.
  bool loopback() const;
};

/// Throws Error (user) when `address` ("HOST:PORT"; port 0: any that is free) is no address, or when listening there is not safe:
/// beyond the loopback, without certificates or token, and not asked for by name. Also for a token that is too short.
void check_listening(const std::string& address, const Security& security);

/// The same for a client: it would show its token, and trust whoever answers. The port must not be 0.
void check_connecting(const std::string& address, const Security& security);

}  // namespace telar
