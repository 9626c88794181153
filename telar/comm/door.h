#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/greeting.h"
#include "telar/comm/listening.h"
#include "telar/comm/network.h"

namespace telar {

/// Listens for a server and greets clients on a thread of its own (greeting.h). It passes on the sockets of
/// those that know the token, and closes the others.
///
/// A client has kGreetingSeconds for its greeting. At most kMostStrangers are being greeted at once; one more
/// takes the place of the oldest, because a process of the job needs one round trip only. Strangers thus hold
/// at most kMostStrangers descriptors and kMostStrangers × kLongestGreeting bytes, however many they are.
class Door {
 public:
  static constexpr double kGreetingSeconds = 5;
  static constexpr size_t kMostStrangers = 256;

  /// Listens at all addresses of the host. Throws Error (user) with the system's reason if it cannot.
  explicit Door(const Address& address);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// Starts to greet. `admit` becomes the owner of the socket, which does not block. `say` gets a message
  /// about refused clients, once a second at most. Both are called by the Door's thread, which the destructor
  /// ends; nobody is greeted meanwhile, so they must not wait for anybody (ServiceLog).
  void open(const Security& security, std::function<void(int)> admit,
            std::function<void(const std::string&)> say);
  uint16_t port() const { return listening_.port(); }

 private:
  struct Stranger;

  void run();
  void greet(Stranger& stranger);
  void accept_all(int listener);
  static std::deque<Stranger>::iterator most_crowded(std::deque<Stranger>& strangers);
  void refuse(Stranger& stranger, const std::string& why);
  void close_late();
  void report();

  Listening listening_;
  int wake_;  ///< an eventfd that becomes readable when the thread shall end
  std::string proof_;
  std::function<void(int)> admit_;
  std::function<void(const std::string&)> say_;
  std::deque<Stranger> strangers_;  ///< the oldest first
  bool full_ = false;               ///< the process has no descriptor left for a connection
  std::string refused_;             ///< the last refusal that was not reported yet
  size_t refusals_ = 0;
  std::chrono::steady_clock::time_point reported_{};
  std::thread thread_;
};

}  // namespace telar
