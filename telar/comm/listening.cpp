#include "telar/comm/listening.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "telar/core/error.h"

namespace telar {
namespace {

constexpr int kQueued = 1024;  // connections that the system holds until they are accepted

using FoundAddresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

FoundAddresses look_up(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.host.c_str(), "0", &hints, &found); error != 0)
    throw user_error("Listening on {} is not possible: {}", address.text(), gai_strerror(error));
  return {found, &freeaddrinfo};
}

void set_listener_option(int socket, int level, int option, int value) {
  // If the system does not know an option, the socket works without it.
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof(value)));
}

void set_port(sockaddr* address, uint16_t port) {
  if (address->sa_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
}

uint16_t port_of_listener(int listener, uint16_t wanted) {
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) != 0) return wanted;
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

/// Returns -1, with errno, if listening is not possible.
int listen_at(const addrinfo& address) {
  const int listener = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return -1;
  set_listener_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  // [::] also means all IPv4 addresses.
  if (address.ai_family == AF_INET6) set_listener_option(listener, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(listener, address.ai_addr, address.ai_addrlen) == 0 && listen(listener, kQueued) == 0)
    return listener;
  const int reason = errno;
  close(listener);
  errno = reason;
  return -1;
}

}  // namespace

Listening::Listening(const Address& address) : port_(address.port) {
  const FoundAddresses found = look_up(address);
  int reason = 0;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    set_port(one->ai_addr, port_);
    const int listener = listen_at(*one);
    if (listener < 0) {
      reason = errno;
      continue;
    }
    sockets_.push_back(listener);
    port_ = port_of_listener(listener, port_);
  }
  if (sockets_.empty())
    throw user_error("Listening on {} is not possible: {}", address.text(), std::strerror(reason));
}

Listening::~Listening() {
  for (const int socket : sockets_) close(socket);
}

}  // namespace telar
