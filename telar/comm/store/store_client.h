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
#include "telar/comm/store/store_round.h"

namespace telar {

/// One transfer to and from a server.
struct StoreExchange {
  size_t begin =
      0;  ///< floats of the arena: the range that is pushed from outgoing() and pulled into incoming()
  size_t end = 0;
  bool push = true;
  bool pull = true;
  float learning_rate = 0;
  float samples = 0;  ///< over which the pushed sums go
  /// Without: the push is applied as it comes (the pull then sees it). With: it is summed with those of the other members, the sum
  /// applied once, and the pull brings the result.
  std::optional<StoreRound> round;
};

/// What came of the exchanges since the last finish().
struct StoreReport {
  bool finite = true;  ///< false: a NaN or infinity was pushed, and parameters are non-finite
  bool late = false;   ///< the round had been closed without this member's contribution
  double staleness =
      0;  ///< mean over the pushed floats: updates by others between this member's pull and its push
  int64_t lost_updates = 0;  ///< updates that a restarted server had forgotten
};

struct StoreClientOptions {
  std::string address;
  Security security;
  std::string job;                ///< id of the run; a server refuses another than that it was created for
  uint32_t member = 0;            ///< given by the coordinator, whose own is 0
  bool shared_memory = true;      ///< where server and client are on one host
  double keepalive_seconds = 10;  ///< a server that is silent for twice so long is taken for lost
  double patience_seconds = 60;   ///< how long a server may be away (it is restarted) before that is an error
  std::function<void(const std::string&)>
      say;               ///< told of connections lost and found, from any thread; may be empty
  std::stop_token stop;  ///< ends all waiting with an Error (run)
};

/// A member's connection to one parameter server. One thread calls it. What was started when a connection broke is sent again over the
/// next one. All functions throw Error (run) that names the server when it is away for longer than the patience, and
/// Error (user) when it refuses (another token, job or version of the protocol).
class StoreClient {
 public:
  explicit StoreClient(StoreClientOptions options);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  /// Makes the server's arenas for the job, all zero, unless it has these already (a snapshot). For the coordinator.
  /// `description` is what the server's StoreUpdateFactory reads. Returns false when it had them.
  bool create(const StoreLayout& layout, const std::string& description);
  /// The server's layout; waits until somebody has created it. Makes outgoing() and incoming().
  const StoreLayout& attach();

  /// Copies an arena: `arena` is "" for the parameters, or a name of StoreUpdate::slots(). Each update is whole or not in it.
  void read(const std::string& arena, std::span<float> values);
  void write(const std::string& arena, std::span<const float> values);
  std::vector<std::string> slots();

  /// One arena each, 64-byte aligned: what is pushed, and what was pulled last.
  std::span<float> outgoing();
  std::span<const float> incoming() const;

  /// Starts a transfer and returns at once; outgoing() of that range must stay as it is until finish(). Members of a round start their
  /// ranges in the same order.
  void start(const StoreExchange& exchange);
  /// Waits for all that was started.
  StoreReport finish();

  /// Bytes sent and received over this connection so far; of which over shared memory.
  struct Traffic {
    uint64_t sent = 0;
    uint64_t received = 0;
    bool shared_memory = false;
  };
  Traffic traffic() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
