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
#include "telar/comm/store/store.h"
#include "telar/comm/store/store_chain.h"
#include "telar/comm/store/store_ledger.h"
#include "telar/core/error.h"

namespace telar {

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
  /// create() takes the server over: it then serves only members of this tenure (StoreTenure), and refuses
  /// this client, too, once it was restarted or taken over by another one.
  bool takes_over = false;
  uint64_t tenure = 0;  ///< of the coordinator that has taken the server over; 0: none
  /// Of a server whose blocks have copies: which server of the placement it is, from 1 on, and the generation
  /// of which `address` is the head's (store_chain.h). 0: there are no copies. See move().
  uint32_t shard = 0;
  int64_t generation = 0;
  std::string copy;  ///< StoreHead::copy
  /// Whether an address is one of this host. If the copy's is, and the head's is not, pulls go to the copy.
  std::function<bool(const std::string& address)> is_here = on_this_host;
  std::function<void(const std::string&)>
      say;               ///< gets messages about lost and restored connections, from any thread; may be empty
  std::stop_token stop;  ///< ends all waits with an Error (run)
};

/// A parameter server over a network. When the connection breaks, unanswered requests are sent again over the
/// next one. All functions throw Error (run) that names the server if it is unreachable for longer than the
/// patience, and Error (user) if it refuses (wrong token, job or protocol version).
class StoreClient final : public Store {
 public:
  explicit StoreClient(StoreClientOptions options);
  ~StoreClient() override;

  bool create(const StoreLayout& layout, const std::string& description) override;
  const StoreLayout& layout() override;
  const StoreLayout& attach() override;
  std::vector<std::string> slots() override;
  int64_t read(const std::string& arena, std::span<float> values) override;
  void write(const std::string& arena, std::span<const float> values, int64_t updates) override;
  std::span<float> outgoing() override;
  std::span<const float> incoming() const override;
  void start(const StoreExchange& exchange) override;
  StoreReport finish() override;

  /// The server's blocks are another server's now, or of another generation. Called from any thread.
  void move(const StoreHead& head);

  /// Bytes sent and received over this connection so far, and whether they go through shared memory.
  struct Traffic {
    uint64_t sent = 0;
    uint64_t received = 0;
    uint64_t from_copy = 0;  ///< of floats, beside `received`
    bool shared_memory = false;
  };
  Traffic traffic() const;
  /// For how long the server has been unreachable; 0 while it is connected, and before the first transfer.
  double seconds_away() const;
  /// What the server's restarts have cost since this client was first connected.
  StoreLosses losses() const;
  /// The tenure of this client's calls.
  uint64_t tenure() const;
  /// Why no further transfer will succeed: the server refuses this client, or has been unreachable for longer
  /// than the patience. Empty while it is connected, or may be again.
  std::optional<Error> failure() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
