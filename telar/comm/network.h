#pragma once

#include <cstdint>
#include <string>

namespace telar {

/// How the processes of a job authenticate and encrypt. Parameter servers, coordinator and workers use the
/// same settings.
struct Security {
  /// A secret of this job's processes, sent with every call: at least 16 printable characters, no blanks.
  /// Empty: no token.
  std::string token;
  /// A folder with ca.pem, cert.pem and key.pem (scripts/certs makes them). Both sides present a certificate
  /// of this authority. Empty: no TLS.
  std::string certificates;
  /// Permits listening and connecting beyond the loopback without TLS or token (--insecure-network). The
  /// default is to refuse.
  bool insecure_network = false;
};

/// Version of the protocol between processes. Another version is refused with a message that names both.
inline constexpr int kProtocolVersion = 1;

/// A network address in the form "HOST:PORT". The host is a name, an IPv4 address, or an IPv6 address in
/// brackets: "[::1]:7000".
struct Address {
  std::string host;  ///< without brackets
  uint16_t port = 0;

  /// Throws Error (user) if the text is not an address.
  static Address parse(const std::string& text);
  std::string text() const;
  /// True for 127.0.0.0/8, ::1 and `localhost`. Other names count as beyond the loopback, whatever they
  /// resolve to.
  bool loopback() const;
};

/// Throws Error (user) if `address` ("HOST:PORT"; port 0: any free port) is not an address, if the token is
/// too short, or if listening there is not safe. Not safe is: beyond the loopback, without certificates or
/// without token, and not permitted by insecure_network.
void check_listening(const std::string& address, const Security& security);

/// The same check for a client, which would send its token and trust any server. The port must not be 0.
void check_connecting(const std::string& address, const Security& security);

}  // namespace telar
