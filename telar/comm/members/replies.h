#pragma once

#include <optional>
#include <string>
#include <vector>

#include "telar/comm/members/members.pb.h"
#include "telar/comm/store/store_chain.h"
#include "telar/comm/store/store_round.h"
#include "telar/data/streams/lease_book.h"

namespace telar {

/// What a member has heard from its coordinator, without network and threads. Each answer waits in its own
/// field until the member takes it. Not thread-safe.
struct Replies {
  struct Welcome {
    uint32_t id = 0;
    std::string job;
    std::string description;
    std::vector<std::string> servers;
    std::vector<uint64_t> tenures;  ///< of the servers; 0: none
    std::vector<StoreHead> heads;   ///< none: the servers' blocks have no copies
  };
  std::optional<Welcome> welcome;  ///< the first one; later ones are ignored
  std::optional<bool> work_there;
  std::optional<bool> go_on;
  std::optional<std::optional<Lease>> lease;
  std::optional<StoreRound> round;  ///< without members: the update is made without this one
  bool over = false;                ///< the training is over
  std::vector<StoreHead> heads;     ///< as they are now; none: the servers' blocks have no copies

  /// Throws Error (user) for a message that no coordinator sends; nothing has changed then.
  void take(const members::Reply& reply);
};

}  // namespace telar
