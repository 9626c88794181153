#pragma once

#include <string>

namespace telar {

/// How the processes of one job trust each other over the network. The same for parameter servers, coordinator and workers.
struct Security {
  /// Known to the processes of this job alone and sent with every call; at least 16 printable characters.
  std::string token;
  /// A folder with ca.pem, cert.pem and key.pem (scripts/certs makes them): both sides show a certificate of that authority.
  /// Empty: no TLS.
  std::string certificates;
  /// Listening beyond the loopback without TLS and token is refused unless this is said by name (--insecure-network).
  bool insecure_network = false;
};

/// Version of what is spoken between processes. Another version is refused with a sentence that says both.
inline constexpr int kProtocolVersion = 1;

/// Throws Error (user) when `address` ("HOST:PORT"; port 0: any that is free) is no address, or when listening there is not safe:
/// beyond the loopback, without certificates or token, and not asked for by name.
void check_listening(const std::string& address, const Security& security);

}  // namespace telar
