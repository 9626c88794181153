#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "telar/comm/network.h"
#include "telar/comm/store/store_layout.h"
#include "telar/comm/store/store_ledger.h"
#include "telar/comm/store/store_round.h"

namespace telar {

/// One transfer to and from a server.
struct StoreExchange {
  size_t begin = 0;  ///< the range of the arena: pushed from outgoing(), pulled into incoming()
  size_t end = 0;
  bool push = true;
  bool pull = true;
  float learning_rate = 0;
  float samples = 0;  ///< number of samples in the pushed sums
  /// Without a round, the push is applied at once, and the pull sees its effect. With a round, the push is
  /// summed with those of the other members, the sum is applied once, and the pull returns the result.
  std::optional<StoreRound> round;
};

/// Result of the exchanges since the last finish().
struct StoreReport {
  bool finite = true;        ///< false: a NaN or infinity was pushed, and parameters are non-finite
  bool late = false;         ///< the round was closed without this member's contribution
  double staleness = 0;      ///< mean over the pushed floats of the updates by others between pull and push
  int64_t lost_updates = 0;  ///< updates that a restarted server had lost
};

struct StoreClientOptions {
  std::string address;
  Security security;
  std::string job;            ///< id of the run; a server refuses any other id than its own
  uint32_t member = 0;        ///< given by the coordinator, whose own id is 0
  bool shared_memory = true;  ///< where server and client are on one host
  /// Of the floats in frames; the other parts of frames always have one. None: unless safe_from_damage().
  std::optional<bool> payload_checksums;
  double keepalive_seconds = 10;  ///< a server that is silent for twice this time counts as lost
  double patience_seconds = 60;   ///< how long a server may be unreachable (it restarts) before an error
  std::function<void(const std::string&)>
      say;               ///< gets messages about lost and restored connections, from any thread; may be empty
  std::stop_token stop;  ///< ends all waits with an Error (run)
};

/// A member's connection to one parameter server, used by one thread. When the connection breaks, unanswered
/// requests are sent again over the next one. All functions throw Error (run) that names the server if it is
/// unreachable for longer than the patience, and Error (user) if it refuses (wrong token, job or protocol
/// version).
class StoreClient {
 public:
  explicit StoreClient(StoreClientOptions options);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// For the coordinator: creates the server's arenas for the job, all zero. If the server already has them
  /// (from a snapshot), returns false and changes nothing. `description` is the input of the server's
  /// StoreUpdateFactory.
  bool create(const StoreLayout& layout, const std::string& description);
  /// Waits until the server's arenas exist.
  const StoreLayout& layout();
  /// The same, and allocates outgoing() and incoming(). Compare layout() with the one that is expected first:
  /// a server may describe more than this machine can hold.
  const StoreLayout& attach();

  /// Copies an arena. `arena` is "" for the parameters, or one of StoreUpdate::slots(). Each update is either
  /// entirely in the copy or not at all.
  void read(const std::string& arena, std::span<float> values);
  void write(const std::string& arena, std::span<const float> values);
  std::vector<std::string> slots();

  /// One arena each, 64-byte aligned: the values to push, and the values pulled last.
  std::span<float> outgoing();
  std::span<const float> incoming() const;

  /// Starts a transfer and returns at once. This range of outgoing() must not change until finish(). The
  /// members of a round start their ranges in the same order.
  void start(const StoreExchange& exchange);
  /// Waits for all started transfers.
  StoreReport finish();

  /// Bytes sent and received over this connection so far, and whether they go through shared memory.
  struct Traffic {
    uint64_t sent = 0;
    uint64_t received = 0;
    bool shared_memory = false;
  };
  Traffic traffic() const;
  /// For how long the server has been unreachable; 0 while it is connected, and before the first transfer.
  double seconds_away() const;
  /// What the server's restarts have cost since this client was first connected.
  StoreLosses losses() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
