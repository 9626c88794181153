#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "telar/comm/network.h"
#include "telar/comm/store/store_chain.h"
#include "telar/comm/store/store_layout.h"
#include "telar/core/error.h"

namespace telar {

struct StoreChainsOptions {
  std::vector<std::string> addresses;  ///< of the servers
  std::vector<std::string> joined;     ///< of those that have joined an earlier coordinator of the run
  Security security;
  std::string job;
  size_t copies = 2;  ///< of each shard; at most as many as `addresses`
  struct Shard {
    StoreLayout layout;
    std::string description;  ///< the input of the server's StoreUpdateFactory
  };
  std::vector<Shard> shards;  ///< what the servers hold, in the order of the addresses; at most one for each
  /// Above that of all chains that an earlier coordinator of these servers has made.
  int64_t generations_before = 0;
  /// The pushes and pulls of a shard go to another server now, or to the same one in another generation, or
  /// it has another copy that answers pulls. From any thread; it must not wait.
  std::function<void(size_t shard, const StoreHead& head)> moved;
  /// The servers that have joined are these now, to be given to the next coordinator of the run as `joined`.
  /// From any thread; may be empty.
  std::function<void(const std::vector<std::string>& addresses)> joined_changed;
  std::function<void()> failed;  ///< failure() says why; from any thread
  /// Of servers that have joined, are lost or leave; of shards that another server serves; and once after
  /// each loss, that all variables have their copies. From any thread; may be empty.
  std::function<void(const std::string&)> say;
  double patience_seconds =
      60;                ///< for the servers at the start, and for silent ones that have the only copies
  std::stop_token stop;  ///< ends all waits with an Error (run)
};

/// The coordinator's side of the chains of servers (ChainKeeper). It asks each server five times a second for
/// its state, and tells it its chains. A server that does not answer for 1.4 s, was started again, or asks
/// for it (StoreServer::leave) is left out, and the next one with a copy takes its place. Then, and when a
/// server has come back or joined, the copies are spread again (next_placements).
///
/// A server that has joined is forgotten when it has not answered for a minute, and at once when it refuses
/// or is one that has another address here; it may join again, a minute after a refusal. A server that
/// answers here, but cannot connect to its predecessor for 5 s, is left out for a minute.
///
/// The chains of a coordinator are new ones, because it writes the state with which the training begins, or
/// is resumed. Their generations begin above those of earlier coordinators, whose servers they are no longer.
class StoreChains {
 public:
  /// Waits until the first server of each shard is there: the server of this number; or, if others have
  /// joined and it does not answer for 5 s, one that does. Throws Error (run) if one cannot be reached in
  /// time, and Error (user) if one refuses.
  explicit StoreChains(StoreChainsOptions options);
  ~StoreChains();
  StoreChains(const StoreChains&) = delete;
  StoreChains& operator=(const StoreChains&) = delete;

  std::vector<StoreHead> heads() const;
  /// After the shards are written: copies them, and waits until all copies are there. Throws like the
  /// constructor.
  void copy();
  /// A server has joined, maybe not for the first time. From any thread; does not wait. Throws Error (user)
  /// if it cannot be one of these, or has refused less than a minute ago.
  void join(const std::string& address);
  /// Why the training cannot go on: no copy of a shard is left, or another coordinator has taken the servers.
  /// Empty: it can.
  std::optional<Error> failure() const;
  /// failure() is that no copy of a shard is left.
  bool copies_lost() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
