#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "telar/comm/store/store_blocks.h"
#include "telar/comm/store/store_snapshot.h"
#include "telar/io/folder_lock.h"

namespace telar {

struct HeldStoreOptions {
  std::string snapshots;        ///< folder for snapshots, also read at the start; empty: none
  bool fresh = false;           ///< see StoreServerOptions
  double snapshot_seconds = 0;  ///< see StoreServerOptions
  double round_seconds = 5;     ///< see StoreServerOptions
  StoreServerId own = 0;        ///< this server's id, if its blocks have copies elsewhere; 0: they have not
  StoreUpdateFactory make_update;
  std::function<void(const std::string&)> say;  ///< gets log messages, from any thread; may be empty
};

/// The pause after a snapshot that took `last` seconds, `work` of them on a processor (the others wait for
/// the disk), on a server that has run for `running` seconds. A kill then costs at most 1 s of updates, in
/// longer runs 1 % of the time up to 10 s. If that many snapshots would take more than 2 % of a processor or
/// half of the disk, they take that.
double snapshot_pause(double running, double last, double work);

/// What a parameter server holds, whatever connects its members to it: the pieces of one job, their state and
/// update, in memory and in snapshots. Thread-safe.
class HeldStore {
 public:
  /// Most bytes of incomplete sums.
  static constexpr size_t kOpenBytes = size_t{8} << 20;

  /// Continues from the last snapshot of the folder. Throws Error (user) if it is damaged, or if another
  /// server has the folder for 5 s more.
  explicit HeldStore(HeldStoreOptions options);
  /// Saves a last snapshot. No member may be served any more.
  ~HeldStore();
  HeldStore(const HeldStore&) = delete;
  HeldStore& operator=(const HeldStore&) = delete;

  /// Creates the arenas, all zero. Returns false, and changes nothing, if they exist with this identity.
  /// Throws Error (user), with the difference, if they exist with another one, or if the update cannot be
  /// made.
  bool create(StoreIdentity identity);
  /// Whether the arenas exist; waits up to `longest` for them.
  bool created(std::chrono::milliseconds longest = {});
  /// Throws Error (user) if the arenas are those of another job.
  void require_job(const std::string& job);

  // After created().
  const StoreIdentity& identity() const { return identity_; }
  StoreBlocks& blocks() { return *blocks_; }
  StoreMembers& members() { return members_; }
  StoreLosses losses() const { return ledger_.losses(); }
  /// The segments of the snapshot from which it continues.
  const std::vector<StoreSegment>& at_start() const { return at_start_; }

  /// Call when a worker connects: the coordinator has then written the whole initial state. From now on, a
  /// server that dies has a snapshot to continue from; an earlier snapshot could contain half of that state.
  void save_first();
  /// Ends all present and future waits.
  void end();

 private:
  void make(StoreIdentity identity);
  std::string difference(const StoreIdentity& other) const;
  void take_up_snapshot();
  void save();
  void save_now();
  void save_at_times();
  double pause();
  void say(const std::string& sentence) const;

  HeldStoreOptions options_;
  const std::optional<FolderLock> lock_;  ///< of the snapshots
  StoreLedger ledger_;
  StoreMembers members_;
  const StoreClock::time_point start_ = StoreClock::now();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  StoreIdentity identity_;
  std::unique_ptr<StoreBlocks> blocks_;  ///< like identity_, never changes once it is set
  std::vector<StoreSegment> at_start_;
  std::mutex saving_;  ///< guards the members below
  bool begun_ = false;
  uint64_t saved_ = 0;
  double saving_seconds_ = 0;  ///< that the last snapshot took
  double saving_work_ = 0;     ///< of these, on a processor
  bool failed_ = false;        ///< it could not be saved
  std::thread saver_;
};

}  // namespace telar
