#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "telar/comm/network.h"
#include "telar/comm/store/store_chain.h"
#include "telar/core/latency_counts.h"
#include "telar/data/streams/lease_book.h"

namespace telar {

/// How members work together.
enum class Rhythm : uint8_t {
  free,   ///< each member at its own pace
  rounds  ///< all parts of a piece of work are summed in a StoreRound, and applied once
};

struct CoordinatorOptions {
  std::string listen = "127.0.0.1:0";
  Security security;
  std::string job;                   ///< id of the run
  std::string description;           ///< of the job, for the members (opaque to comm)
  std::vector<std::string> servers;  ///< addresses of the parameter servers, in placement order
  std::vector<uint64_t> tenures;     ///< that have begun there (StoreTenure); empty: none
  std::vector<int64_t> generations;  ///< of their chains (StoreHead); empty: their blocks have no copies
  std::vector<std::string> copies;   ///< StoreHead::copy, as many as generations
  int64_t workers = 1;               ///< members that work at once
  int64_t backups = 0;               ///< of `rounds`: further ones, which copy parts that are not ready
  Rhythm rhythm = Rhythm::free;
  int64_t parts = 1;  ///< of each global batch
  LeaseSizes sizes;   ///< of leases and of pieces of work
  /// For `free`: a member waits before it is more than this many batches ahead of the slowest (Ho et al.,
  /// 2013, stale synchronous parallel). -1: no limit.
  int64_t staleness_bound = -1;
  double patience_seconds = 5;  ///< a member that is silent for longer counts as lost
  /// For `rounds`: how long the first epoch waits for `workers` members, from the first request for work.
  double gather_seconds = 10;
  int64_t rounds_before = 0;  ///< number of the last round that the servers already know (of a resumed run)
  /// The numbers of pieces of work begin behind it. A coordinator that may meet the workers of an earlier one
  /// chooses it at random, below 2^39: a late push of theirs is then no work of its own.
  int64_t works_before = 0;
  /// A parameter server with this address joins; throws Error (user) if it must not. Called by the
  /// coordinator's thread: it must not wait. Empty: the blocks of the servers have no copies.
  std::function<void(const std::string& address)> server_joins;
  /// gets messages about members that join, leave, are lost or refused; from any thread; may be empty.
  /// Members wait for it: it must not wait for a reader (ServiceLog).
  std::function<void(const std::string&)> say;
};

/// A batch of an epoch, all parts of which are done.
struct StepDone {
  uint32_t epoch = 0;
  int64_t step = 0;
  int64_t samples = 0;
  std::vector<double> metrics;  ///< sums over the samples
  double staleness = 0;         ///< mean over the parts
  double seconds = 0;           ///< of the longest part: computation and exchange
  double busy_seconds = 0;      ///< of all parts together
  LatencyCounts latency = {};   ///< PartDone::latency of all parts
};

/// What the loss of members has cost. Their unfinished work goes to others, so no sample is left out.
struct MemberLosses {
  int64_t members = 0;  ///< lost: neither left by themselves nor at the end of the training
  int64_t parts = 0;    ///< parts of batches that were leased to them and are done by others
  bool operator==(const MemberLosses&) const = default;
};

struct MemberInfo {
  uint32_t id = 0;
  std::string name;      ///< "host:pid"
  bool working = false;  ///< false: a spare, or it has not asked for work yet
  int64_t samples = 0;
  double staleness = 0;  ///< mean over its contributions
};

/// Assigns the work of a run. It listens, gives members their work, forms rounds, and detects lost members.
/// Members come and go at any time; those beyond workers + backups are spares that take free seats. All calls
/// are made by one thread.
///
///     coordinator.begin_epoch(0, 0, steps);
///     while (!coordinator.epoch_finished())
///       for (const StepDone& step : coordinator.wait(0.1)) report(step);
class Coordinator {
 public:
  /// Starts to listen. Throws Error (user) if the address is invalid or listening there is not safe.
  explicit Coordinator(CoordinatorOptions options);
  /// Tells the members that the training is over and briefly waits for them to leave; or, after abandon(),
  /// that they are lost, so that they look for the next coordinator at this address.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  std::string address() const;

  /// Starts to give out the steps [first, steps) of an epoch.
  /// `place`: of an epoch whose steps come to exist one after another (a stream), where step `first` begins;
  /// empty: all steps exist, and are found by their numbers.
  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps, const std::string& place = {});
  /// The next steps of such an epoch exist: where each of them ends. Returns how many steps exist and have
  /// not begun.
  int64_t extend(const std::vector<std::string>& places);
  /// Rhythm::free: so many members work from now on; MemberRegistry::resize().
  void resize(int64_t workers, bool spares_leave);
  void abandon();
  /// The parameter servers are these from now on. May be called by any thread.
  void move(const std::vector<StoreHead>& heads);
  /// Stops giving out new batches. All parts of batches already begun are still done, including those that
  /// lost members leave behind. Then epoch_finished() becomes true, and steps_done() returns where the epoch
  /// can continue.
  void drain();
  /// Every part of the epoch is done, and wait() has returned all steps.
  bool epoch_finished() const;
  /// All steps of the epoch before this one are done.
  int64_t steps_done() const;

  /// Returns the steps completed since the last call, in order of completion. Waits up to `seconds` for the
  /// first one. Throws Error (run) if a member has reported a failure of the whole job (fail_all).
  std::vector<StepDone> wait(double seconds);
  std::vector<MemberInfo> members() const;
  MemberLosses losses() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
