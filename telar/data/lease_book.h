#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
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
  /// Steps [first, steps) of an epoch; a lease is at most `lease_steps` long.
  LeaseBook(uint32_t epoch, int64_t first, int64_t steps, int64_t parts, int64_t lease_steps);

  /// The earliest work that nobody has: what was given back first, then of `preferred` part, then of any. None when all is taken.
  std::optional<Lease> take(uint32_t member, int64_t preferred);
  /// The part of one batch was used. False when the member has no such lease (any more): the report is to be ignored.
  bool done(uint32_t member, uint64_t lease, int64_t step);
  /// One step of a lease will not be done by this member; somebody else gets it.
  void give_back(uint32_t member, uint64_t lease, int64_t step);
  /// The member is gone.
  void give_back_all(uint32_t member);

  bool holds_work(uint32_t member) const;
  bool available() const;  ///< take() would give something
  bool finished() const;   ///< every part of every step is done
  /// All parts of all steps before this one are done.
  int64_t done_before() const;
};

}  // namespace telar
