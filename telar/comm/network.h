#pragma once

#include <cstdint>
#include <string>

namespace telar {

/// How the processes of a job authenticate and encrypt. Parameter servers, coordinator and workers use the
/// same settings.
struct Security {
  /// A secret of this job's processes, proven in the greeting (greeting.h) and sent with every call: at least
  /// 16 printable characters, no blanks. Empty: no token.
  std::string token;
  /// A folder with ca.pem, cert.pem and key.pem (scripts/certs makes them). Both sides present a certificate
  /// of this authority. Empty: no TLS.
  std::string certificates;
  /// Permits listening and connecting beyond the loopback without TLS or token (--insecure-network). The
  /// default is to refuse.
  bool insecure_network = false;
};

/// Version of the protocol between processes, which every call of a client names. A server refuses another
/// version with a message that names both; the server logs it, and the client ends with it. Version 1 had no
/// greeting (greeting.h), so its processes are refused before they name their version: then only the newer
/// side's message names both versions (no_greeting_reason, error_of).
inline constexpr int kProtocolVersion = 15;
/// The last version whose processes do not greet.
inline constexpr int kLastVersionWithoutGreeting = 1;

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

/// Whether "HOST:PORT" is an address of this host, as far as its system knows: one of its loopback or network
/// interfaces. A name is looked up, which may take time.
bool on_this_host(const std::string& address);

/// Throws Error (user) if `address` ("HOST:PORT"; port 0: any free port) is not an address, if the token is
/// too short, or if listening there is not safe. Not safe is: beyond the loopback, without certificates or
/// without token, and not permitted by insecure_network.
void check_listening(const std::string& address, const Security& security);

/// Whether data on the way to this address cannot be damaged unnoticed: TLS authenticates every record, and
/// data on the loopback never leave the memory of this host.
bool safe_from_damage(const std::string& address, const Security& security);

/// The same check for a client, which would send its token and trust any server. The port must not be 0.
void check_connecting(const std::string& address, const Security& security);

}  // namespace telar
