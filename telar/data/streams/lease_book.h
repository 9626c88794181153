#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace telar {

/// Part `part` of each of the global batches [begin, end) of an epoch.
struct Lease {
  uint64_t id = 0;
  uint32_t epoch = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t part = 0;
  /// Of each step: the number of the piece of work that it belongs to, from 1 on. A piece has all parts of
  /// some steps that follow each other. Its gradients are pushed at once, in the end. It has the same number
  /// and the same steps, to whomever its parts are leased.
  std::vector<int64_t> works = {};
  /// Of a stream: where each step begins in it, and where the last one ends. Empty: steps are found by their
  /// numbers.
  std::vector<std::string> places = {};
  /// The piece of work has been applied; only the reports of these steps are missing, with their metrics.
  bool applied = false;
};

/// Throws Error (user) if a received lease is not one of an epoch of `steps` batches of `parts` parts.
void check_lease(const Lease& lease, int64_t steps, int64_t parts);

/// Sizes of what a LeaseBook gives out, in steps.
struct LeaseSizes {
  /// At most so many in a lease, a multiple of `work`; one of returned work may have more. If batches have
  /// several parts, a lease is a part of one piece of work.
  int64_t lease = 8;
  int64_t work = 1;  ///< at most so many in a piece of work
};

/// Assigns parts of an epoch's global batches to members that may come and go. Each batch has `parts` equal
/// parts. What a lost member did not finish of a piece of work is leased to another member: a server that
/// knows its number from a push of the lost member ignores the second push. Not thread-safe.
class LeaseBook {
 public:
  /// For each part, whether a member will take its batches itself; empty: no part is claimed.
  using Claims = std::vector<bool>;

  /// Covers steps [first, steps) of an epoch. `works_before`: the number of the last piece of work before.
  /// Throws Error (user) for numbers out of range.
  LeaseBook(uint32_t epoch, int64_t first, int64_t steps, int64_t parts, LeaseSizes sizes,
            int64_t works_before = 0);

  /// The earliest work that is not leased: what was given back, the `preferred` part (-1: none), or any
  /// unclaimed part. Members have an equal share of a piece's unclaimed parts. Empty when everything is
  /// leased, claimed or another's share.
  std::optional<Lease> take(uint32_t member, int64_t preferred, const Claims& claimed = {});
  /// A part of the current piece that another member holds, as long as that is the only part that it has of
  /// the piece, nobody else has a copy, `slow` is true for it, and `member` has no part. Either one does it.
  std::optional<Lease> copy(uint32_t member, const std::function<bool(uint32_t)>& slow);
  /// Records that the lease's part of one batch was used. False when the member does not (or no longer) hold
  /// the lease: the report must be ignored. The batches of a piece of work are reported in their order, so
  /// what is left of it has no gap. Throws Error (user) for another order.
  bool done(uint32_t member, uint64_t lease, int64_t step);
  /// The member will not do the piece of work of this step of its lease; another member gets what is not done
  /// of it.
  void give_back(uint32_t member, uint64_t lease, int64_t step);
  /// Gives back all leases of a member that is gone. Returns the number of parts in them.
  int64_t give_back_all(uint32_t member);
  /// Starts no further batch. A batch of which any part was leased is still completed, so the epoch ends at a
  /// batch boundary.
  void drain();
  /// Only steps before this one exist so far; without a call, all do. More may come to exist later.
  void exist_before(int64_t step) { existing_ = step; }

  /// The lease's part, if this member still has to do this step of it.
  std::optional<int64_t> part_of(uint32_t member, uint64_t lease, int64_t step) const;
  bool holds_work(uint32_t member) const { return held_.contains(member); }
  /// The first step of the lease that take() would return.
  std::optional<int64_t> available(uint32_t member, int64_t preferred, const Claims& claimed = {}) const;
  /// Whether copy() would return a lease.
  bool copyable(uint32_t member, const std::function<bool(uint32_t)>& slow) const {
    return part_to_copy(member, slow) != nullptr;
  }
  /// Whether every part of every step is done.
  bool finished() const { return done_before_ == steps_; }
  /// The first step that is not done in all its parts.
  int64_t done_before() const { return done_before_; }
  /// The first step of which no part was ever leased.
  int64_t begun_before() const;
  /// The number of the last piece of work that was given out, or of the last one before.
  int64_t works() const { return works_; }

  /// The first piece of work that is not applied: its number, or if it has none yet, the one that it will
  /// get.
  int64_t current_work() const { return current() == pieces_.end() ? works_ + 1 : current()->second.work; }
  /// Where a piece ends; none if it is done, or not known.
  std::optional<int64_t> end_of(int64_t work) const;
  /// Whether steps of the piece have been reported as done, so that it was applied as a whole; also if it is
  /// not known.
  bool applied(int64_t work) const;
  /// The members that hold each part of a piece.
  std::vector<std::vector<uint32_t>> holders(int64_t work) const;
  /// Whether these are all leases that the member holds of this piece.
  bool holds(uint32_t member, int64_t work, const std::set<uint64_t>& leases) const;
  /// Whether another member has a copy of a part of this step that the member holds.
  bool shares(uint32_t member, int64_t step) const;
  /// The member gives back what it holds of this piece.
  void give_back_work(uint32_t member, int64_t work);
  /// The member will not do what it holds of this piece, because others do it.
  void drop(uint32_t member, int64_t work);
  uint32_t epoch() const { return epoch_; }

 private:
  struct Held {
    int64_t part = 0;
    std::map<int64_t, int64_t> steps;  ///< not done yet: the step, and its piece of work
  };
  using HeldLeases = std::map<uint64_t, Held>;
  struct Piece {
    int64_t end = 0;
    int64_t work = 0;
  };

  /// The part with the earliest work that was never leased: the preferred part, or an unclaimed one.
  std::optional<int64_t> fresh_part(uint32_t member, int64_t preferred, const Claims& claimed) const;
  bool takes_returned(std::optional<int64_t> fresh) const;
  /// The piece of work that begins at a step; a new one if there is none.
  const Piece& piece_from(int64_t step);
  using PiecePlace = std::map<int64_t, Piece>::const_iterator;
  /// By its number; pieces_.end() if it is done or not known.
  PiecePlace piece(int64_t work) const;
  bool reported(PiecePlace piece) const;
  /// The first one that is not applied; pieces_.end(): none that was begun.
  PiecePlace current() const;
  /// How many parts of a step the member holds.
  int64_t parts_held(uint32_t member, int64_t step) const;
  const Held* part_to_copy(uint32_t member, const std::function<bool(uint32_t)>& slow) const;
  Lease leased(uint32_t member, Lease lease);
  /// The member's lease, if it still has to do this step of it; otherwise nullptr.
  const Held* find(uint32_t member, uint64_t lease, int64_t step) const;
  void erase(uint32_t member, uint64_t lease, int64_t step);
  /// The member's leases with steps of this piece.
  std::set<uint64_t> leases_for(uint32_t member, int64_t work) const;
  /// The members that hold this part of a step.
  std::vector<std::pair<uint32_t, uint64_t>> leases_of(int64_t step, int64_t part) const;
  /// Another member may get what no other holds.
  void return_unless_copied(int64_t step, int64_t part, int64_t work);

  uint32_t epoch_;
  int64_t steps_;
  int64_t existing_;  ///< steps before this one exist
  LeaseSizes sizes_;
  int64_t works_;
  int64_t done_before_;
  uint64_t last_lease_;
  std::vector<int64_t> next_;  ///< for each part, the first step that was never leased
  std::map<std::pair<int64_t, int64_t>, int64_t> returned_;  ///< by (step, part): the piece of work
  std::map<uint32_t, HeldLeases> held_;                      ///< by member; only members with work
  std::map<int64_t, int64_t> done_parts_;                    ///< parts done, by step, from done_before_ on
  std::map<int64_t, Piece> pieces_;  ///< that were begun and are not done, by their first steps
  bool copied_ = false;              ///< copy() was ever used
};

}  // namespace telar
