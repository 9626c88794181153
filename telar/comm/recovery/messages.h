#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

namespace telar::recovery {

/// A process: drawn at its start, so one that was started again is another one.
using MemberId = uint64_t;

/// The members that make the steps after `base` together; their program follows from them. The first one
/// reports the steps.
struct Generation {
  int64_t number = 0;  ///< 0: none
  std::vector<MemberId> members;
  int64_t base = 0;  ///< the last step that is in the state with which it begins

  bool has(MemberId id) const { return std::ranges::find(members, id) != members.end(); }
};

/// What the exchange before the update of a step gave to all: what a member needs for its update besides its
/// own sums (the sum of squares, if gradients are clipped), and for the line of the log (sums of metrics).
struct StepOutcome {
  int64_t step = 0;
  int64_t generation = 0;  ///< in which it was made
  std::vector<double> sums;
};

// From a member to the coordinator. What one sends to the other arrives in order, or the connection ends. A
// member that makes a new one reads nothing more of the old one.

struct
    Hello {  ///< the first message of each connection, which the coordinator reads before it sends anything
  int64_t generation = 0;
  int64_t ready = 0;                  ///< the generation for which it is ready; 0: none
  std::vector<MemberId> unreachable;  ///< members of its generation
};
struct Accuse {
  int64_t number = 0;  ///< of the generation whose connections these are
  MemberId whom = 0;
};
struct Stopped {  ///< none of its threads computes, sends or writes any more
  int64_t attempt = 0;
  int64_t generation = 0;
  int64_t applied = 0;                ///< the last step in its state
  std::vector<StepOutcome> outcomes;  ///< of the last steps: those that may not be in the log
};
struct Ready {
  int64_t attempt = 0;
};
struct Line {  ///< of a step that stays; from the first member
  int64_t generation = 0;
  StepOutcome outcome;
};
using Report = std::variant<Hello, Accuse, Stopped, Ready, Line>;

// From the coordinator to a member.

struct Suspend {
  int64_t attempt = 0;  ///< the number of the next generation, if this attempt forms it
  int64_t after = 0;    ///< the step that is still to be made, if nobody is lost
};
struct Prepare {
  Generation next;
  Generation from;  ///< whose holdings the state is moved from; without members: there is none
  std::vector<MemberId>
      sources;              ///< members of `from` that are left; all have applied next.base when they give
  StepOutcome outcome;      ///< of next.base, for the sources that have not applied it
  bool new_memory = false;  ///< a member that was given up may still write into what it could write
};
struct Commit {
  int64_t number = 0;
};
struct Logged {  ///< the last step that is in the log for good
  int64_t step = 0;
};
struct Dismiss {};  ///< it was given up, and must end
using Order = std::variant<Suspend, Prepare, Commit, Logged, Dismiss>;

}  // namespace telar::recovery
