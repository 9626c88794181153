#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "telar/comm/store/store_works.h"

namespace telar {

/// A server's process: drawn at its start, so one that was restarted is another one.
using StoreServerId = uint64_t;

/// The servers that hold copies of a block (van Renesse and Schneider, "Chain Replication for Supporting High
/// Throughput and Availability", 2004). The first one is the head, the last one the tail.
struct StoreChain {
  int64_t generation = 0;  ///< one more at each change of the servers
  std::vector<StoreServerId> servers;
  /// The generation since which the last server is being filled; 0: all servers have a whole copy.
  int64_t joins_since = 0;
  /// The last generation that has put them in another order; 0: none.
  int64_t ordered_since = 0;
};

/// A chain as the coordinator describes it to its servers.
struct ConfiguredChain {
  StoreChain chain;
  int64_t founded = 0;                 ///< the generation since which nothing that was answered is lost
  std::vector<std::string> addresses;  ///< of the servers
};

/// Where a shard's pushes and pulls go.
struct StoreHead {
  std::string address;
  int64_t generation = 0;
  /// The last server, which answers pulls, too; empty: it is the head, or has joined and is being filled.
  std::string copy = {};
  bool operator==(const StoreHead&) const = default;
};

/// One update of a block.
struct ChainUpdate {
  int64_t sequence = 0;  ///< its place in the head's order, from 1 on
  size_t begin = 0;      ///< the range
  size_t end = 0;
  int64_t work = 0;  ///< StoreExchange::work
};

// What a server sends to its neighbours in the chain. What one sends to another arrives in order, or the
// connection ends; a successor that connects says hello first, and only then gets updates.

/// From the successor: what it has.
struct ChainHello {
  bool whole = false;    ///< false: it needs a copy
  int64_t sequence = 0;  ///< of its last update
  int64_t held = 0;      ///< up to here, it and all behind it have the updates
};
/// To the successor that needs it: sent with the block's values and versions.
struct ChainCopy {
  int64_t sequence = 0;  ///< of the last update in it
  StoreWorks works;
};
/// From the successor: it and all behind it have the updates up to this one.
struct ChainHeld {
  int64_t sequence = 0;
};
struct ChainMessage {
  int64_t generation = 0;
  std::variant<ChainHello, ChainCopy, ChainUpdate, ChainHeld> body;
};

/// One server's copy of a block in its chain, without values, network, threads or clock: each call adds
/// actions, which the caller performs in their order. Not thread-safe.
///
/// The head puts the pushes in order. Each server applies an update, notes its piece of work, and passes it
/// on; the tail has what all have, says so to its predecessor, and so on to the head, which then answers the
/// push. So what was answered is in every copy, with its number: whichever server becomes the head ignores a
/// push that comes again.
///
/// Every message names the generation of the chain. A server takes only messages of its own; those of a later
/// one wait until it has heard of it, those of an earlier one are dropped. So a server that was given up
/// answers nothing any more, because no successor answers it.
///
/// A chain may be put in another order. The new head's updates are then the order, and a server behind it may
/// have others, which were not answered: it gets a copy of the block. Until that is there, it keeps what it
/// has, which includes all that was answered, because it confirms nothing meanwhile.
class ChainedBlock {
 public:
  using Ticket = uint64_t;  ///< a push that waits for its answer, numbered by the caller

  struct Apply {
    ChainUpdate update;
  };
  struct Install {};  ///< the values that came with the message take the place of this server's
  struct Send {
    StoreServerId to = 0;
    ChainMessage message;
  };
  struct Answer {
    Ticket ticket = 0;
    bool applied = false;  ///< false: refused, and to be sent to the present head
  };
  /// To the coordinator: what this server is in this generation.
  struct Report {
    int64_t generation = 0;
    bool whole = false;
  };
  using Action = std::variant<Apply, Install, Send, Answer, Report>;

  explicit ChainedBlock(StoreServerId own) : own_(own) {}

  /// This server has the block's initial values, or those of a snapshot, and no chain yet.
  void begin();
  /// The coordinator's word; an old one changes nothing. Call it again when the connection to the coordinator
  /// was lost.
  void configure(const StoreChain& chain);
  /// The connection to the predecessor was made.
  void connected();
  /// Throws Error (user) for a message that its sender cannot have sent.
  void receive(const ChainMessage& message);
  /// A push, sent to the head of this generation. `work` is above 0; throws Error (user) otherwise.
  void push(int64_t generation, Ticket ticket, size_t begin, size_t end, int64_t work);

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }

  const StoreChain& chain() const { return chain_; }
  /// Whether this server has every update that was answered in its generation.
  bool whole() const { return whole_; }
  /// Whether pushes and pulls are for this server.
  bool serves() const { return whole_ && place() == 0; }
  /// Whether there is a server behind this one, to which updates go.
  bool passes_on() const { return !is_tail(); }
  /// How many of the last updates may still be asked for by the server behind this one.
  size_t kept() const { return pending_.size(); }
  /// Whether all have every update that this server has: it may answer pulls beside the head.
  bool acknowledged() const { return is_tail() && !awaits_copy(); }
  /// Whether a copy from the predecessor takes the place of what this server has.
  bool awaits_copy() const { return !whole_ || reordered_; }
  const StoreWorks& works() const { return works_; }

 private:
  struct Waiting {
    Ticket ticket;
    int64_t sequence;  ///< held by all: answered
  };

  /// Of this server in the chain; the chain's length if it is in none.
  size_t place() const;
  bool is_tail() const { return place() + 1 == chain_.servers.size(); }
  bool is_last() const;
  void send(StoreServerId to, decltype(ChainMessage::body) body);
  void forget();
  void refuse_waiting();
  void apply(const ChainUpdate& update);
  void hold(int64_t sequence);
  void take(const ChainHello& hello);
  void take(const ChainCopy& copy);
  void take(const ChainUpdate& update);
  void take(const ChainHeld& held) { hold(held.sequence); }

  StoreServerId own_;
  StoreChain chain_;
  bool whole_ = false;
  bool reordered_ = false;           ///< since its last copy: its updates may not be its predecessor's
  int64_t sequence_ = 0;             ///< of the last update
  int64_t held_ = 0;                 ///< up to here, this server and all behind it have the updates
  StoreWorks works_;                 ///< of the updates
  std::deque<ChainUpdate> pending_;  ///< after held_
  bool sending_ = false;             ///< the successor has said hello
  std::deque<Waiting> waiting_;      ///< at the head
  std::vector<ChainMessage> early_;  ///< of later generations
  std::vector<Action> actions_;
};

}  // namespace telar
