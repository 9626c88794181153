#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/store/store_account.h"
#include "telar/comm/store/store_frame.h"
#include "telar/comm/store/store_ledger.h"
#include "telar/comm/store/store_members.h"
#include "telar/comm/store/store_round.h"
#include "telar/comm/store/store_update.h"
#include "telar/comm/store/store_works.h"
#include "telar/core/buffer.h"

namespace telar {

/// Floats of a block that are always pushed together and so have had the same updates.
struct StoreSegment {
  size_t begin = 0;
  size_t end = 0;
  int64_t version = 0;  ///< updates applied
  int64_t round = 0;    ///< last closed round, whether it was applied or not
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
class StoreBlocks {
 public:
  using Cancelled = std::function<bool()>;

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
    double staleness = 0;  ///< updates since pulled_version
  };
  /// Applies a push at once. `scratch` has kBlockFloats.
  Applied apply(const StorePush& push, std::span<float> scratch);

  struct Contributed {
    std::shared_ptr<StoreSum> sum;  ///< null: late, or stopped
    bool late = false;
    bool stopped = false;
    double staleness = 0;
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

  /// Copies floats of `arena` (0: parameters) and returns their version. The range is within one block.
  int64_t read(size_t arena, size_t begin, std::span<float> out);
  int64_t version(size_t begin, size_t end);
  void write(size_t arena, size_t begin, const FramePayload& values, size_t count, int64_t version);

  size_t blocks() const { return blocks_.size(); }
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

  Block& block_of(size_t begin) const { return *blocks_[begin / kBlockFloats]; }
  bool apply_locked(Block& block, size_t begin, size_t end, const float* gradient, float learning_rate,
                    float samples);
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
  std::mutex keeper_mutex_;
  std::condition_variable keeper_wakes_;
  std::thread keeper_;  ///< gives up members that are not to be waited for
};

}  // namespace telar
