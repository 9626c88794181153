#include "telar/comm/store/store_members.h"

#include <algorithm>

namespace telar {

void StoreMembers::arrived(uint32_t member, int64_t first_round) {
  const std::lock_guard lock(mutex_);
  Member& one = members_[member];
  ++one.streams;
  one.silent = false;
  one.first_round = std::max(one.first_round, first_round);
  one.heard = StoreClock::now();
}

void StoreMembers::left(uint32_t member) {
  const std::lock_guard lock(mutex_);
  --members_[member].streams;
}

void StoreMembers::busy(uint32_t member) {
  const std::lock_guard lock(mutex_);
  Member& one = members_[member];
  ++one.busy;
  one.silent = false;
  one.heard = StoreClock::now();
}

void StoreMembers::idle(uint32_t member) {
  const std::lock_guard lock(mutex_);
  Member& one = members_[member];
  --one.busy;
  one.heard = StoreClock::now();
}

bool StoreMembers::given_up(uint32_t member, int64_t round, StoreClock::time_point since) {
  const std::lock_guard lock(mutex_);
  const auto now = StoreClock::now();
  const auto found = members_.find(member);
  // The member may still be connecting: at the start, or after the server's restart. It is waited for once,
  // not for each range of the round.
  if (found == members_.end()) {
    if (now - since < patience_) return false;
    members_.emplace(member, Member{});
    return true;
  }
  Member& one = found->second;
  if (one.streams == 0 || one.silent || round < one.first_round) return true;
  // A member that the server keeps waiting is not silent. If members wait for each other in a circle, that
  // must end, too. (They must not: all start their ranges in the same order.)
  const auto allowed = one.busy > 0 ? 3 * patience_ : patience_;
  if (now - std::max(since, one.heard) < allowed) return false;
  one.silent = true;
  return true;
}

}  // namespace telar
