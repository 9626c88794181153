#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace telar {

/// A piece of work: part `part` of each of the global batches [begin, end) of an epoch.
struct Lease {
  uint64_t id = 0;
  uint32_t epoch = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t part = 0;
  /// Of each step: the number of the piece of work that it belongs to, from 1 on. The steps of a piece follow
  /// each other and are pushed at once, in the end. A piece has the same number, and the same steps but those
  /// that are done, to whomever it is leased.
  std::vector<int64_t> works = {};
  /// Of a stream: where each step begins in it, and where the last one ends. Empty: steps are found by their
  /// numbers.
  std::vector<std::string> places = {};
};

/// Throws Error (user) if a received lease is not one of an epoch of `steps` batches of `parts` parts.
void check_lease(const Lease& lease, int64_t steps, int64_t parts);

/// Sizes of what a LeaseBook gives out, in steps.
struct LeaseSizes {
  int64_t lease =
      8;             ///< at most so many in a lease, a multiple of `work`; one of returned work may have more
  int64_t work = 1;  ///< at most so many in a piece of work
};

/// Assigns parts of an epoch's global batches to members that may come and go. Each batch has `parts` equal
/// parts. Work that a lost member did not finish is leased to another member, a piece of work as a whole: a
/// server that knows its number from a push of the lost member ignores the second push. Not thread-safe.
class LeaseBook {
 public:
  /// For each part, whether a member will take its batches itself; empty: no part is claimed.
  using Claims = std::vector<bool>;

  /// Covers steps [first, steps) of an epoch. `works_before`: the number of the last piece of work before.
  /// Throws Error (user) for numbers out of range.
  LeaseBook(uint32_t epoch, int64_t first, int64_t steps, int64_t parts, LeaseSizes sizes,
            int64_t works_before = 0);

  /// The earliest work that is not leased: first what was given back, then the `preferred` part, then any
  /// unclaimed part. Empty when everything is leased or claimed.
  std::optional<Lease> take(uint32_t member, int64_t preferred, const Claims& claimed = {});
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
  /// Whether take() would return a lease.
  bool available(int64_t preferred, const Claims& claimed = {}) const;
  /// Whether every part of every step is done.
  bool finished() const { return done_before_ == steps_; }
  /// The first step that is not done in all its parts.
  int64_t done_before() const { return done_before_; }
  /// The first step of which no part was ever leased.
  int64_t begun_before() const;
  /// The number of the last piece of work that was given out, or of the last one before.
  int64_t works() const { return works_; }
  uint32_t epoch() const { return epoch_; }

 private:
  struct Held {
    int64_t part = 0;
    std::map<int64_t, int64_t> steps;  ///< not done yet: the step, and its piece of work
  };
  using HeldLeases = std::map<uint64_t, Held>;

  /// The part with the earliest work that was never leased: the preferred part, or an unclaimed one.
  std::optional<int64_t> fresh_part(int64_t preferred, const Claims& claimed) const;
  /// The member's lease, if it still has to do this step of it; otherwise nullptr.
  const Held* find(uint32_t member, uint64_t lease, int64_t step) const;
  void erase(uint32_t member, uint64_t lease, int64_t step);

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
};

}  // namespace telar
