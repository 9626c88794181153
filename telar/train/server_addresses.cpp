#include "telar/train/server_addresses.h"

#include <netdb.h>

#include <array>
#include <set>

#include "telar/comm/network.h"
#include "telar/core/error.h"
#include "telar/train/job_strategy.h"

namespace telar {

namespace {

/// A DNS name with several addresses stands for several servers.
std::vector<std::string> resolved(const std::string& text) {
  const Address address = Address::parse(text);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (failure != 0) {
    throw user_error("strategy.server_addresses: '{}' has no address: {}", address.host,
                     ::gai_strerror(failure));
  }
  std::set<std::string> hosts;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> host{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, host.data(), host.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      hosts.insert(host.data());
  }
  ::freeaddrinfo(found);
  std::vector<std::string> addresses;
  for (const std::string& host : hosts) addresses.push_back(Address{host, address.port}.text());
  return addresses;
}

}  // namespace

std::vector<std::string> given_addresses(std::vector<std::string> addresses, const StrategyJob& strategy) {
  const int64_t servers = server_processes(strategy);
  if (addresses.size() == 1 && servers > 1) addresses = resolved(addresses[0]);
  if (static_cast<int64_t>(addresses.size()) != servers) {
    throw user_error(
        "strategy.servers is {}{}, but strategy.server_addresses has {}; give one address for each",
        strategy.servers, servers > strategy.servers ? ", and each copy is on another server" : "",
        addresses.size());
  }
  return addresses;
}

}  // namespace telar
