#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "telar/comm/store/store_layout.h"
#include "telar/comm/store/store_round.h"

namespace telar {

/// One transfer to and from a server.
struct StoreExchange {
  size_t begin = 0;  ///< the range of the arena: pushed from outgoing(), pulled into incoming()
  size_t end = 0;
  bool push = true;
  bool pull = true;
  float learning_rate = 0;
  float samples = 0;     ///< number of samples in the pushed sums; 0: no parameter changes
  uint16_t payload = 0;  ///< payload_number() of what is pushed
  /// The number of the piece of work whose gradient, or of which a part's, is pushed, from 1 on. The server
  /// applies each number once to a range; a later push of the same one, by whoever, counts as applied. 0: no
  /// number, always applied.
  int64_t work = 0;
  /// Without a round, the push is applied at once, and the pull sees its effect. With a round, the push is
  /// summed with those of the other members, the sum is applied once, and the pull returns the result. If a
  /// contribution is missing, nothing is applied (StoreReport::late).
  std::optional<StoreRound> round;
};

/// Result of the exchanges since the last finish().
struct StoreReport {
  bool finite = true;        ///< false: a NaN or infinity was pushed, and parameters are non-finite
  bool late = false;         ///< the round was not applied to all floats; another one must be
  double staleness = 0;      ///< mean over the pushed floats of the updates by others between pull and push
  int64_t lost_updates = 0;  ///< updates that a restarted server had lost
  int64_t updates = 0;       ///< that have led to the floats of a read(): the least of their ranges
};

/// A member's access to one parameter server, used by one thread: through a network (StoreClient) or within a
/// process (LocalStoreServer). All functions throw Error: (run) if the server cannot be reached or the run is
/// stopped, (user) if the server refuses.
class Store {
 public:
  Store() = default;
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// For the coordinator: creates the server's arenas, all zero. If the server already has them, with
  /// the same update, returns false and changes nothing. `description` is the input of the server's
  /// StoreUpdateFactory.
  virtual bool create(const StoreLayout& layout, const std::string& description) = 0;
  /// Waits until the server's arenas exist.
  virtual const StoreLayout& layout() = 0;
  /// The same, and allocates outgoing() and incoming(). Compare layout() with the one that is expected first:
  /// a server may describe more than this machine can hold.
  virtual const StoreLayout& attach() = 0;
  /// Names of the optimizer state that the server keeps: StoreUpdate::slots().
  virtual std::vector<std::string> slots() = 0;

  /// Copies an arena. `arena` is "" for the parameters, or one of slots(). Each update is either entirely in
  /// the copy or not at all. `updates`: the number of updates that have led to these values; the next one has
  /// the number after it (Adam's bias correction depends on it). read() returns it: that of the range with
  /// the fewest, if a restarted server has lost some.
  virtual int64_t read(const std::string& arena, std::span<float> values) = 0;
  virtual void write(const std::string& arena, std::span<const float> values, int64_t updates) = 0;

  /// One arena each, 64-byte aligned: the values to push, and the values pulled last.
  virtual std::span<float> outgoing() = 0;
  virtual std::span<const float> incoming() const = 0;

  /// Starts a transfer and returns at once. This range of outgoing() must not change until finish(). The
  /// members of a round start their ranges in the same order.
  virtual void start(const StoreExchange& exchange) = 0;
  /// Waits for all started transfers.
  virtual StoreReport finish() = 0;
};

}  // namespace telar
