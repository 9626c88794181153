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
  double patience_seconds = 60;  ///< how long the coordinator may be unreachable, at any time
  std::stop_token stop;          ///< ends all waits
  /// messages about the coordinator: unreachable, or has given this member up; from any thread; may be empty
  std::function<void(const std::string&)> say;
  std::string job;   ///< joins only this job (a lost member joins again); empty: any
  std::string name;  ///< the coordinator's name for it; empty: "host:pid"
};

/// A worker's place in a run. A separate thread tells the coordinator every second that the worker is alive;
/// all other calls are made by one thread.
///
/// lost() becomes true when the connection to the coordinator breaks, or when the coordinator has given this
/// member up after a long silence. Its work then goes to others, its reports are ignored, and calls return as
/// if there were no work. It may join again as a new member, with MembershipOptions::job. A coordinator that
/// restarts is waited for; one of another job is refused.
///
/// Throws Error (user) when the coordinator refuses (token, protocol version, job), and Error (run) when the
/// coordinator is unreachable for longer than the patience, has sent something impossible, or the stop token
/// ends a wait.
class Membership {
 public:
  explicit Membership(MembershipOptions options);
  /// Leaves: unfinished work is given back at once.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  uint32_t id() const;  ///< 1 or more
  const std::string& job() const;
  const std::string& description() const;
  const std::vector<std::string>& servers() const;

  /// Waits until there is work for this member; a spare may wait long. Returns false when the training is
  /// over or the member is lost(). A member of rounds reads the parameters after this call, and whenever
  /// next_round() returns none.
  bool wait_for_work();
  bool lost() const;

  /// Returns a lease; none when the whole epoch has been given out. wait_for_work() then waits for the next
  /// epoch or for work that is given back.
  std::optional<Lease> lease();
  /// Reports a part as done. The report is sent in the background, before later messages of this member.
  void done(const PartDone& part);
  /// Reports that this member will not use the part, so another member gets it.
  void give_back(uint64_t lease, int64_t step);

  /// Rhythm::rounds: announces a contribution and waits for the round that takes it. None if the round was
  /// full (backups), or lost().
  std::optional<StoreRound> next_round();
  /// Rhythm::free with a staleness bound: waits until this member may begin the next batch.
  void wait_for_slowest();

  /// Ends the run for all members: for a failure that every member would meet (the loss is not finite).
  void fail_all(const std::string& sentence);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace telar
