#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "telar/comm/recovery/messages.h"

namespace telar::recovery {

/// A member's half of recovery (Coordinator), without network, threads or clock: each call adds actions,
/// which the caller performs in their order. Not thread-safe.
///
/// A member is a process. If one of its replicas has applied a step when its threads stop, the others apply
/// it, too, from their own sums, before the process says that it has stopped.
class Member {
 public:
  struct Send {
    Report report;
  };
  /// End the step or the move between two actions, drop what was prepared, and call stopped(). Holdings and
  /// sums stay. A step up to `after` is made first, if no connection is lost.
  struct Stop {
    int64_t after = 0;
  };
  /// Update with the worker's own sums of this step.
  struct Apply {
    StepOutcome outcome;
  };
  /// Rewrite, compile, connect, and fill new memory from the holdings of the sources, as soon as each of them
  /// prepares the same; then call prepared(). Others take what this one holds until Stop or Adopt.
  struct Move {
    Prepare prepare;
  };
  /// Make the steps after its base, with what was prepared. Old holdings and sums are dropped. Without
  /// members: there is nothing to do here, and nothing is kept.
  struct Adopt {
    Generation generation;
  };
  struct End {};
  using Action = std::variant<Send, Stop, Apply, Move, Adopt, End>;

  explicit Member(MemberId id) : id_(id) {}

  /// The connection to the coordinator was made, also again.
  void connected();
  /// All of its sums of a step are complete: it may take part in the exchange before the update.
  void summed(int64_t step) { summed_ = step; }
  /// That exchange is complete: the step may be applied, and the one before stays, whatever happens.
  void passed(StepOutcome outcome);
  void applied(int64_t step);
  /// All have applied the last step, which they said in a barrier or an exchange after it: it stays.
  void met();
  /// A connection of the generation `number`, running or in preparation, is lost. The step or the move has
  /// ended.
  void unreachable(MemberId whom, int64_t number);
  void stopped();
  void prepared();
  /// Throws Error (run) if the coordinator's record is not that of this run.
  void receive(const Order& order);

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }

 private:
  void take(const Suspend& suspend);
  void take(const Prepare& prepare);
  void take(const Commit& commit);
  void take(const Logged& logged);
  void take(const Dismiss& dismiss);
  void stays(int64_t step);
  void say_stopped();
  void send(Report report) { actions_.emplace_back(Send{std::move(report)}); }
  bool reports() const { return !generation_.members.empty() && generation_.members.front() == id_; }

  MemberId id_;
  Generation generation_;
  int64_t attempt_ = 0;   ///< the last one
  bool stopped_ = false;  ///< for it
  std::optional<Prepare> prepare_;
  int64_t ready_ = 0;
  int64_t summed_ = 0;
  int64_t applied_ = 0;
  StepOutcome passed_;
  int64_t stays_ = 0;                 ///< the last step that no death can undo
  std::deque<StepOutcome> outcomes_;  ///< of applied steps of which it is not known that they are in the log
  std::vector<MemberId> unreachable_;
  std::vector<Action> actions_;
};

}  // namespace telar::recovery
