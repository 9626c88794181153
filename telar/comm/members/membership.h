#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "telar/comm/members/part_done.h"
#include "telar/comm/network.h"
#include "telar/comm/store/store_round.h"
#include "telar/data/lease_book.h"

namespace telar {

struct MembershipOptions {
  std::string coordinator;  ///< HOST:PORT
  Security security;
  double patience_seconds = 60;  ///< how long the coordinator may be away, at the start and later
  std::stop_token stop;          ///< ends all waiting
  std::function<void(const std::string&)>
      say;  ///< told of a coordinator that is away, found, or has given this member up, from any thread; may be empty
  std::string job;   ///< joins this one only (a member that was lost joins again); empty: any
  std::string name;  ///< how the coordinator calls it; empty: "host:pid"
};

/// A worker's place in a run. It tells the coordinator that it lives from a thread of its own; all else is called by one thread.
///
/// `lost()` when the connection to the coordinator broke, or when the coordinator has given this member up (it was silent for too
/// long): its work was given to others, what it reports is ignored, and calls return as if there were no work. It may then join again,
/// as a new member, with MembershipOptions::job: a coordinator that was started again is waited for, one of another job is refused.
///
/// Errors: Error (user) when the coordinator refuses (token, version of the protocol, job); Error (run) when it is away for longer than
/// the patience, or when the stop token ends the waiting.
class Membership {
 public:
  /// Joins.
  explicit Membership(MembershipOptions options);
  /// Leaves: unfinished work goes back at once.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  uint32_t id() const;  ///< 1 or more
  const std::string& job() const;
  const std::string& description() const;
  const std::vector<std::string>& servers() const;

  /// Waits until there is work for this member (a spare may wait long). False: the training is over, or lost(). A member of rounds reads
  /// the parameters after that, and whenever next_round() gives none.
  bool wait_for_work();
  bool lost() const;

  /// Work; none when all of the epoch has been given out (wait_for_work() then waits for the next epoch, or for work that comes back).
  std::optional<Lease> lease();
  /// A part was used. Sent in the background, before anything else that this member says.
  void done(const PartDone& part);
  /// This part will not be used by this member: somebody else gets it.
  void give_back(uint64_t lease, int64_t step);

  /// Rhythm::rounds: this member has a contribution; waits for the round that takes it. None: the round was full (backups), or lost().
  std::optional<StoreRound> next_round();
  /// Rhythm::free with a staleness bound: waits until this member may begin another batch.
  void wait_for_slowest();

  /// Ends the run for all: a failure that would meet every member (the loss is not finite).
  void fail_all(const std::string& sentence);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
