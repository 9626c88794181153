#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

namespace telar {

using StoreClock = std::chrono::steady_clock;

/// The server's view of its connected members: who may still be waited for in a round. Thread-safe.
class StoreMembers {
 public:
  /// A member that sends nothing for `patience` while others wait is given up.
  explicit StoreMembers(StoreClock::duration patience) : patience_(patience) {}

  /// A stream of the member begins. The member contributes to no round before `first_round`.
  void arrived(uint32_t member, int64_t first_round);
  void left(uint32_t member);
  /// A frame of the member is being handled; until idle(), the server itself keeps the member waiting.
  void busy(uint32_t member);
  void idle(uint32_t member);

  /// Returns true if the member's contribution to this round is not to be waited for (any longer). `since`:
  /// when the others began to wait.
  bool given_up(uint32_t member, int64_t round, StoreClock::time_point since);

 private:
  struct Member {
    int streams = 0;
    int busy = 0;
    bool silent = false;  ///< was waited for in vain and has sent nothing since
    int64_t first_round = 0;
    StoreClock::time_point heard;
  };

  StoreClock::duration patience_;
  std::mutex mutex_;
  std::map<uint32_t, Member> members_;
};

}  // namespace telar
