#include "telar/comm/door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "telar/core/error.h"

namespace telar {
namespace {

using DoorClock = std::chrono::steady_clock;

constexpr int kTickMilliseconds = 100;
constexpr auto kReportEvery = std::chrono::seconds(1);

void set_option(int socket, int level, int option, int value) {
  // If the system does not know an option, the connection works without it.
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof(value)));
}

uint16_t port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string name_of(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0)
    return "an unknown address";
  return Address{.host = host.data(), .port = port_of(address)}.text();
}

}  // namespace

struct Door::Stranger {
  int socket = -1;  ///< -1: closed, or passed on
  std::string name;
  DoorClock::time_point since;
  std::string bytes;
};

Door::Door(const Address& address) : listening_(address), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_ < 0) throw run_error("cannot create an eventfd: {}", std::strerror(errno));
}

Door::~Door() {
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  for (const Stranger& stranger : strangers_)
    if (stranger.socket >= 0) close(stranger.socket);
  close(wake_);
}

void Door::open(const Security& security, std::function<void(int)> admit,
                std::function<void(const std::string&)> say) {
  proof_ = greeting_proof(security);
  admit_ = std::move(admit);
  say_ = std::move(say);
  thread_ = std::thread([this] { run(); });
}

void Door::run() {
  std::vector<pollfd> events;
  while (true) {
    events.clear();
    for (const Stranger& stranger : strangers_) events.push_back({stranger.socket, POLLIN, 0});
    for (const int listener : listening_.sockets())
      events.push_back({listener, static_cast<short>(full_ ? 0 : POLLIN), 0});
    events.push_back({wake_, POLLIN, 0});
    const bool quiet = strangers_.empty() && !full_ && refusals_ == 0;
    poll(events.data(), events.size(), quiet ? -1 : kTickMilliseconds);
    if (events.back().revents != 0) return;
    full_ = false;
    // Those that are known already come first: accept_all() may take their place.
    for (size_t i = 0; i < strangers_.size(); ++i)
      if (events[i].revents != 0) greet(strangers_[i]);
    close_late();
    for (const int listener : listening_.sockets()) accept_all(listener);
    report();
  }
}

void Door::greet(Stranger& stranger) {
  std::array<char, kLongestGreeting> bytes{};
  const size_t wanted = kLongestGreeting - stranger.bytes.size();
  const ssize_t count = recv(stranger.socket, bytes.data(), wanted, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    // A probe, such as Kubernetes' tcpSocket, is not worth a message.
    if (stranger.bytes.empty())
      close(std::exchange(stranger.socket, -1));
    else
      refuse(stranger, "it ended the connection before its greeting");
    return;
  }
  stranger.bytes.append(bytes.data(), static_cast<size_t>(count));
  const auto answer = [&](std::string_view text) {
    return send(stranger.socket, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  };
  switch (judge_greeting(stranger.bytes, proof_)) {
    case Greeting::incomplete: return;
    case Greeting::none: return refuse(stranger, no_greeting_reason(stranger.bytes));
    case Greeting::wrong_token:
      answer(kGreetingRefused);
      return refuse(stranger, "the token is not the one of this job");
    case Greeting::accepted: break;
  }
  if (!answer(kGreetingAccepted)) return refuse(stranger, "it ended the connection");
  set_option(stranger.socket, IPPROTO_TCP, TCP_NODELAY, 1);
  admit_(std::exchange(stranger.socket, -1));
}

/// The oldest connection of the address that has the most of them: somebody who opens very many displaces
/// only their own.
std::deque<Door::Stranger>::iterator Door::most_crowded(std::deque<Stranger>& strangers) {
  const auto host_of = [](const Stranger& stranger) {
    return std::string_view(stranger.name).substr(0, stranger.name.rfind(':'));
  };
  std::map<std::string_view, size_t> connections;
  for (const Stranger& stranger : strangers) ++connections[host_of(stranger)];
  return std::max_element(strangers.begin(), strangers.end(), [&](const Stranger& a, const Stranger& b) {
    return connections[host_of(a)] < connections[host_of(b)];
  });
}

void Door::accept_all(int listener) {
  // As many as there are places, so that each of them is read once before it can be the oldest.
  for (size_t i = 0; i < kMostStrangers / 2; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    const int socket =
        accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      full_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      return;
    }
    if (strangers_.size() >= kMostStrangers) {
      const auto last = most_crowded(strangers_);
      refuse(*last, "too many connections without a greeting");
      strangers_.erase(last);
    }
    strangers_.push_back({.socket = socket, .name = name_of(address, size), .since = DoorClock::now()});
  }
}

void Door::refuse(Stranger& stranger, const std::string& why) {
  close(std::exchange(stranger.socket, -1));
  refused_ = fmt::format("{} was refused: {}", stranger.name, why);
  ++refusals_;
}

void Door::close_late() {
  const auto latest = DoorClock::now() - std::chrono::duration_cast<DoorClock::duration>(
                                             std::chrono::duration<double>(kGreetingSeconds));
  for (Stranger& stranger : strangers_)
    if (stranger.socket >= 0 && stranger.since < latest)
      refuse(stranger, fmt::format("it sent no greeting within {:.0f} s", kGreetingSeconds));
  std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.socket < 0; });
}

void Door::report() {
  const auto now = DoorClock::now();
  if (refusals_ == 0 || now - reported_ < kReportEvery) return;
  if (say_) say_(refusals_ == 1 ? refused_ : fmt::format("{} ({} were refused)", refused_, refusals_));
  refusals_ = 0;
  reported_ = now;
}

}  // namespace telar
