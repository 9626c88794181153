#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "telar/comm/members/work_source.h"
#include "telar/comm/network.h"
#include "telar/comm/store/store_chain.h"

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
class Membership final : public WorkSource {
 public:
  explicit Membership(MembershipOptions options);
  ~Membership() override;

  uint32_t id() const override;
  const std::string& job() const;
  const std::string& description() const;
  const std::vector<std::string>& servers() const;
  const std::vector<uint64_t>& tenures() const;  ///< of the servers; 0: none
  const std::vector<StoreHead>& heads() const;   ///< of the servers; none: their blocks have no copies
  /// `moved` gets the heads, now and when they change, from another thread; it must not wait. Empty: nobody
  /// does any more. See FollowedHeads.
  void follow(std::function<void(const std::vector<StoreHead>& heads)> moved);

  bool wait_for_work() override;
  bool lost() const override;
  /// Ends waits for others when lost() becomes true. Called back with a lock held: it must not wait.
  std::stop_token until_lost() const;
  std::optional<Lease> lease() override;
  /// The report is sent in the background, before later messages of this member.
  void done(const PartDone& part) override;
  void give_back(uint64_t lease, int64_t step) override;
  std::optional<RoundAnswer> next_round(int64_t work, const std::set<uint64_t>& leases) override;
  std::optional<Lease> wait_for_turn(int64_t work) override;
  void fail_all(const std::string& sentence) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Membership::follow() for as long as this object lives.
class FollowedHeads {
 public:
  FollowedHeads(Membership& membership, std::function<void(const std::vector<StoreHead>&)> moved)
      : membership_(membership) {
    membership_.follow(std::move(moved));
  }
  ~FollowedHeads() { membership_.follow({}); }
  FollowedHeads(const FollowedHeads&) = delete;
  FollowedHeads& operator=(const FollowedHeads&) = delete;

 private:
  Membership& membership_;
};

}  // namespace telar
