#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "telar/comm/members/part_done.h"
#include "telar/comm/store/store_round.h"
#include "telar/data/streams/lease_book.h"

namespace telar {

/// Where a worker gets its work from: a coordinator behind a network (Membership) or in the same process
/// (LocalCoordinator). Used by one thread. All functions may throw Error (run), if a wait is ended.
class WorkSource {
 public:
  WorkSource() = default;
  /// Leaves: unfinished work is given back at once.
  virtual ~WorkSource() = default;
  WorkSource(const WorkSource&) = delete;
  WorkSource& operator=(const WorkSource&) = delete;

  virtual uint32_t id() const = 0;  ///< of this worker, 1 or more

  /// Waits until there is work for this member; a spare may wait long. Returns false when the training is
  /// over or the member is lost().
  virtual bool wait_for_work() = 0;
  /// The coordinator counts this member as lost; its calls return as if there were no work.
  virtual bool lost() const = 0;

  /// Returns a lease; none when the whole epoch has been given out. wait_for_work() then waits for the next
  /// epoch or for work that is given back.
  virtual std::optional<Lease> lease() = 0;
  /// Reports a part as done.
  virtual void done(const PartDone& part) = 0;
  /// Reports that this member will not use the part, so another member gets it.
  virtual void give_back(uint64_t lease, int64_t step) = 0;

  /// Rhythm::rounds: announces that all parts that this member holds of a piece of work are computed, those
  /// of these leases, and waits for the round of this piece. Returns the round; one without members, if the
  /// update is made without this one, which drops what it has computed, and reports its parts as done; a
  /// lease that it is to do before, of the same piece or one without an update (Lease::applied); or none, if
  /// it is lost or the training is over.
  using RoundAnswer = std::variant<StoreRound, Lease>;
  virtual std::optional<RoundAnswer> next_round(int64_t work, const std::set<uint64_t>& leases) = 0;
  /// Waits until this member may begin the piece of work. In rounds, all earlier ones are applied then, and
  /// it reads the parameters; or it returns a lease of earlier work. In Rhythm::free, it waits for the
  /// slowest member if there is a staleness bound.
  virtual std::optional<Lease> wait_for_turn(int64_t work) = 0;

  /// Ends the run for all members: for a failure that every member would meet (the loss is not finite).
  virtual void fail_all(const std::string& sentence) = 0;
};

}  // namespace telar
