#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace telar {

/// Some work of an epoch: part `part` of each of the global batches [begin, end).
struct Lease {
  uint64_t id = 0;
  uint32_t epoch = 0;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t part = 0;
};

/// Who works on which part of which global batch of an epoch, when workers come and go. Each batch has `parts` equal parts. What
/// a lost member had not done is given to somebody else, so that each part is used at least once, and without failures exactly
/// once. Not for several threads at once.
class LeaseBook {
 public:
  /// For each part whether somebody will take its batches himself; empty: nobody does.
  using Claims = std::vector<bool>;

  /// Steps [first, steps) of an epoch; a lease is at most `lease_steps` long.
  LeaseBook(uint32_t epoch, int64_t first, int64_t steps, int64_t parts, int64_t lease_steps);

  /// The earliest work that nobody has: what was given back first, then of `preferred` part, then of any that is not claimed.
  /// None when all is taken.
  std::optional<Lease> take(uint32_t member, int64_t preferred, const Claims& claimed = {});
  /// The part of one batch was used. False when the member has no such lease (any more): the report is to be ignored.
  bool done(uint32_t member, uint64_t lease, int64_t step);
  /// One step of a lease will not be done by this member; somebody else gets it.
  void give_back(uint32_t member, uint64_t lease, int64_t step);
  /// The member is gone.
  void give_back_all(uint32_t member);
  /// Begins no further batch: every part of a batch of which some part was given out is still done, so that the epoch ends whole
  /// at a batch.
  void drain();

  /// The part that the lease is of, while this step of it is to be done by this member.
  std::optional<int64_t> part_of(uint32_t member, uint64_t lease, int64_t step) const;
  bool holds_work(uint32_t member) const { return held_.contains(member); }
  bool available(int64_t preferred, const Claims& claimed = {}) const;  ///< take() would give something
  bool finished() const { return done_before_ == steps_; }              ///< every part of every step is done
  /// All parts of all steps before this one are done.
  int64_t done_before() const { return done_before_; }
  uint32_t epoch() const { return epoch_; }

 private:
  struct Held {
    int64_t part = 0;
    std::set<int64_t> steps;  ///< to be done
  };
  using HeldLeases = std::map<uint64_t, Held>;

  /// The part with the earliest work that nobody had yet: the preferred one, or one that is not claimed.
  std::optional<int64_t> fresh_part(int64_t preferred, const Claims& claimed) const;
  /// The steps that this member still has to do of the lease; none: nullptr.
  const Held* find(uint32_t member, uint64_t lease, int64_t step) const;
  void erase(uint32_t member, uint64_t lease, int64_t step);

  uint32_t epoch_;
  int64_t steps_;
  int64_t lease_steps_;
  int64_t done_before_;
  uint64_t last_lease_;
  std::vector<int64_t> next_;                       ///< of each part: the first step that was never given out
  std::set<std::pair<int64_t, int64_t>> returned_;  ///< (step, part)
  std::map<uint32_t, HeldLeases> held_;             ///< of members that hold work
  std::map<int64_t, int64_t> done_parts_;           ///< of steps from done_before_ on
};

}  // namespace telar
