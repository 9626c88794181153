#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/store/store_account.h"
#include "telar/comm/store/store_block_state.h"
#include "telar/comm/store/store_chain.h"
#include "telar/comm/store/store_frame.h"
#include "telar/comm/store/store_ledger.h"
#include "telar/comm/store/store_members.h"
#include "telar/comm/store/store_round.h"
#include "telar/comm/store/store_update.h"
#include "telar/comm/store/store_works.h"
#include "telar/core/buffer.h"

namespace telar {

/// An update that is on its way to the other copies of its block.
struct StoreCopying {
  bool over = false;
  bool held = false;  ///< all copies have it; false: another server is the head now
};

/// Where a server sends frames to its neighbour in a chain. Called with a block locked: it must not wait.
/// Thread-safe.
class ChainSink {
 public:
  virtual ~ChainSink() = default;
  virtual void send(SharedFrame frame) = 0;
  /// A copy of values where send() need not copy them; null: there is no room.
  virtual std::shared_ptr<const std::byte> keep(std::span<const std::byte> values) = 0;
};

/// A sum of contributions, not yet complete or just completed.
struct StoreSum {
  size_t begin = 0;
  size_t end = 0;
  StoreRound round;
  std::vector<bool> in;        ///< members whose contributions are in the sum
  std::vector<bool> given_up;  ///< members that are not waited for
  StoreClock::time_point since = StoreClock::now();
  float learning_rate = 0;
  float samples = 0;
  Buffer floats;
  int64_t work = 0;    ///< the piece of work, whose parts the contributions are
  bool added = false;  ///< `floats` has a contribution
  bool closed = false;
  bool discarded = false;  ///< it was closed without being applied, because a contribution was missing
  bool finite = true;
  int64_t generation = 0;                 ///< StorePush::generation
  std::shared_ptr<StoreCopying> copying;  ///< of the update; null: there are no copies
};

/// A push as the transports deliver it: a range within one block.
struct StorePush {
  uint32_t member = 0;
  size_t begin = 0;
  size_t end = 0;
  float learning_rate = 0;
  float samples = 0;
  int64_t pulled_version = -1;  ///< -1: never pulled
  int64_t work = 0;             ///< StoreExchange::work
  int64_t generation = 0;       ///< of the chain, as the member knows it; 0: without copies
  const FramePayload* gradient = nullptr;
};

/// A server's arenas in blocks of kBlockFloats. Each block has a lock, so transports of several members work
/// in parallel. A function that waits ends with `stopped` true when cancelled() returns true (called every 50
/// ms) or after stop().
///
/// The contributions of a round to a range are added in the order of the round's members; an early one waits
/// for those before it. When all are there, the update is applied. If a member is not to be waited for
/// (StoreMembers), or a contribution to a later round arrives, the sum is discarded: an update of some parts
/// of a batch would be another one. Its contributions count as late, and the coordinator forms another round
/// of this piece of work. So a range has a piece of work either as a whole or not at all. A push or
/// contribution whose work has been applied to its range is answered as usual and changes nothing. At most
/// `open_bytes` of sums are open.
///
/// Blocks may have copies on other servers: then each is a ChainedBlock, and an update is answered when
/// wait_for_copies() returns true. Its values are kept until all copies have it. A push waits while kMostKept
/// bytes are; a round keeps those of one update of each block at most.
class StoreBlocks {
 public:
  using Cancelled = std::function<bool()>;
  static constexpr size_t kMostKept = size_t{4} << 20;

  StoreBlocks(StoreLayout layout, std::unique_ptr<StoreUpdate> update, StoreMembers& members,
              size_t open_bytes);
  ~StoreBlocks();
  StoreBlocks(const StoreBlocks&) = delete;
  StoreBlocks& operator=(const StoreBlocks&) = delete;

  /// Before the blocks are in use: where new versions are counted, too.
  void count_in(StoreLedger& ledger) { ledger_ = &ledger; }

  const StoreLayout& layout() const { return layout_; }
  const StoreUpdate& update() const { return *update_; }
  const std::vector<std::string>& slots() const { return update_->slots(); }

  struct Applied {
    bool finite = true;
    bool stopped = false;
    double staleness = 0;                   ///< updates since pulled_version
    std::shared_ptr<StoreCopying> copying;  ///< null: there are no copies
  };
  /// Applies a push at once, or, with copies, when there is room to keep it. `scratch` has kBlockFloats.
  Applied apply(const StorePush& push, std::span<float> scratch, const Cancelled& cancelled);

  struct Contributed {
    std::shared_ptr<StoreSum> sum;  ///< null: late, or stopped
    bool late = false;
    bool stopped = false;
    double staleness = 0;
    std::shared_ptr<StoreCopying> copying;  ///< of an update that was applied before; null: there is none
  };
  /// Adds a push to its round's sum, after waiting for its turn. Throws Error (user) if the range does not
  /// match the other members' ranges.
  Contributed contribute(const StorePush& push, const StoreRound& round, std::span<float> scratch,
                         const Cancelled& cancelled);
  /// The same for a push that has been added before.
  Contributed find(size_t begin, size_t end, int64_t round);
  /// Waits until the sum is complete and applied. Returns false if stopped.
  bool wait(const StoreSum& sum, const Cancelled& cancelled);
  bool closed(const StoreSum& sum);

  // Copies of the blocks. `begin`: the range's.
  /// This server is `own`, and has copies of other servers' blocks, or they of its. Call it before the blocks
  /// are in use.
  void chain_as(StoreServerId own);
  bool chained() const { return chained_; }
  /// The coordinator's word: the chain of each block is this one.
  void configure(const StoreChain& chain);
  /// A connection to the predecessor of this generation was made: it is told what this server has.
  void connected(int64_t generation, const std::shared_ptr<ChainSink>& predecessor);
  /// Takes what a neighbour of this generation has sent; `neighbour` is the way back. Throws Error (user) for
  /// what it cannot have sent. `scratch` has kBlockFloats.
  void receive(const Frame& frame, int64_t generation, const std::shared_ptr<ChainSink>& neighbour,
               std::span<float> scratch);
  /// Whether this server has every update that was answered.
  bool whole();
  /// Returns false if stopped, or if the update is not held by all copies.
  bool wait_for_copies(size_t begin, const StoreCopying& copying, const Cancelled& cancelled);
  bool copied(size_t begin, const StoreCopying& copying);

  /// Copies floats of `arena` (0: parameters) and returns their version. The range is within one block.
  int64_t read(size_t arena, size_t begin, std::span<float> out);
  /// The same of parameters, if all copies have every update that is in them, in this generation of the
  /// chain. None: this server cannot tell.
  std::optional<int64_t> read_acknowledged(int64_t generation, size_t begin, std::span<float> out);
  int64_t version(size_t begin, size_t end);
  void write(size_t arena, size_t begin, const FramePayload& values, size_t count, int64_t version);

  size_t blocks() const { return blocks_.size(); }
  /// Bytes of updates that are kept for a successor: those of a few pushes, and at most kMostKept.
  size_t most_kept() const { return std::min(4 * layout_.floats * sizeof(float), kMostKept); }
  size_t arenas() const { return arenas_.size(); }
  size_t floats_of(size_t block) const;
  std::vector<StoreSegment> segments(size_t block);

  /// A consistent copy of a block. `memory` has kBlockFloats for each arena.
  struct Copied {
    std::vector<StoreSegment> segments;
    std::span<const float> floats;  ///< of each arena, one after the other, in `memory`
    StoreWorks works;
  };
  Copied copy(size_t block, std::span<float> memory);
  /// Writes a copy back, before the blocks are in use. Returns false if the segments do not make up the
  /// block.
  bool restore(size_t block, Copied copied);
  uint64_t updates() const { return updates_; }
  /// Memory that these blocks and their sessions hold beside the arenas.
  StoreAccount& account() { return account_; }

  /// Ends all present and future waits.
  void stop();

 private:
  struct Block;
  struct Values;
  class Room;

  Block& block_of(size_t begin) const { return *blocks_[begin / kBlockFloats]; }
  bool apply_locked(Block& block, size_t begin, size_t end, const float* gradient, float learning_rate,
                    float samples);
  std::shared_ptr<StoreCopying> update(Block& block, ChainUpdate what, int64_t generation,
                                       const Values& values, bool& finite);
  bool perform(Block& block, const Values& values);
  void send(Block& block, const ChainMessage& message);
  void send_copy(Block& block, const ChainCopy& copy);
  void take_fill(Block& block, const Frame& frame);
  void install(Block& block);
  void drop_sums(Block& block);
  void free_room(size_t bytes);
  void keep_values(Block& block, const ChainUpdate& update, const Values& values);
  bool segments_fit(size_t block, const std::vector<StoreSegment>& segments) const;
  bool close_if_complete(Block& block, const std::shared_ptr<StoreSum>& sum);
  void close(Block& block, const std::shared_ptr<StoreSum>& sum, bool complete);
  std::shared_ptr<StoreSum> open_sum(Block& block, const StorePush& push, const StoreRound& round);
  bool acquire_sum(StoreSum& sum);
  void release_sum(StoreSum& sum);
  std::span<float> arena_floats(size_t arena) { return arenas_[arena].as<float>(); }
  void keep();

  StoreLayout layout_;
  std::unique_ptr<StoreUpdate> update_;
  StoreMembers& members_;
  StoreAccount account_;
  std::vector<Buffer> arenas_;
  StoreUpdate::Memory memory_;
  std::vector<std::unique_ptr<Block>> blocks_;
  StoreLedger* ledger_ = nullptr;
  std::atomic<uint64_t> updates_{0};
  std::mutex sums_mutex_;
  size_t free_sums_;  ///< number of sums that may still be opened
  std::vector<Buffer> unused_;
  std::atomic<int> open_sums_{0};
  std::atomic<bool> stopped_{false};
  bool chained_ = false;
  std::mutex room_mutex_;
  std::condition_variable room_;  ///< kept_bytes_ are fewer
  size_t kept_bytes_ = 0;         ///< of updates that not all copies have, or that may become such now
  std::mutex keeper_mutex_;
  std::condition_variable keeper_wakes_;
  std::thread keeper_;  ///< gives up members that are not to be waited for
};

}  // namespace telar
