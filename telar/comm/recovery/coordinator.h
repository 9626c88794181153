#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "telar/comm/recovery/messages.h"

namespace telar::recovery {

/// The coordinator's half of recovery, without network, threads or clock: each call adds actions, which the
/// caller performs in their order. Not thread-safe. docs/design.md, "A step is redone by those who are left",
/// states the rules that it keeps.
///
/// **An attempt** to form the next generation begins when a member is lost or accused, or one that joins
/// changes the grid, and again with each loss and accusation until it is committed:
/// 1. All are told to stop, at once or, for one that joins, after the same step, and say what they have
///    applied.
/// 2. Of two that cannot reach each other, the one that fewer can reach is given up. Those who are given up
///    are fenced.
/// 3. The last step that anyone has applied is the base: all others apply it from their own sums. Nobody can
///    be further behind, and what is begun of the next step is dropped.
/// 4. The members of the next generation prepare. Those who are left of the last one give what they hold.
/// 5. All are ready: the generation is stored, then told.
class Coordinator {
 public:
  /// What is stored durably, beside the log. Changed before anyone hears of it.
  struct Record {
    Generation committed;
    int64_t attempt = 0;
    std::vector<StepOutcome> outcomes;  ///< up to its base: the log may lack them, and new members, too
  };
  /// What the strategy says. The functions take members in the order in which they came.
  struct Rules {
    /// Those of the candidates that can train together; none: wait for more.
    std::function<std::vector<MemberId>(const std::vector<MemberId>& candidates)> grid;
    /// Whether those who are left of the members hold all of the state.
    std::function<bool(const std::vector<MemberId>& members, const std::vector<MemberId>& left)> whole;
    /// All members keep the outcomes that the log may lack. After so many steps it is made durable, and they
    /// are told.
    int64_t sync_steps = 64;
  };

  struct Send {
    MemberId to = 0;
    Order order;
  };
  struct Store {
    Record record;
  };
  /// Kill it and see it end, or else cut it off; then call fenced().
  struct Fence {
    MemberId member = 0;
  };
  struct Log {
    StepOutcome outcome;
  };
  /// What was logged is stored durably before the next action.
  struct SyncLog {};
  /// Nobody is left who holds some piece: call go_back() with the step of the newest checkpoint.
  struct StateLost {};
  using Action = std::variant<Send, Store, Fence, Log, SyncLog, StateLost>;

  /// `record`: the last one, or that of a new run. `logged`: the last step in the log.
  Coordinator(Rules rules, Record record, int64_t logged);

  /// Throws Error (run) if the member is of another run than the record.
  void receive(MemberId from, const Report& report);
  /// It is silent or gone: it does not come back.
  void lost(MemberId member);
  /// `ended`: the process has ended; otherwise it may still write into memory that it could write.
  void fenced(MemberId member, bool ended);
  /// The next generation begins with a checkpoint. The log ends with its step, too.
  void go_back(int64_t step);

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }
  const Record& record() const { return record_; }

 private:
  enum class Phase : uint8_t { runs, stops, prepares };
  struct Present {
    std::optional<Stopped> stopped;  ///< in this attempt
    bool ready = false;
  };

  void take(MemberId from, const Hello& hello);
  void take(MemberId from, const Accuse& accuse);
  void take(MemberId from, const Stopped& stopped);
  void take(MemberId from, const Ready& ready);
  void take(MemberId from, const Line& line);
  void send(MemberId to, Order order) { actions_.emplace_back(Send{to, std::move(order)}); }
  void log(const std::vector<StepOutcome>& outcomes);
  void sync_log();
  void settle();
  /// `after`: the step that is still to be made.
  void begin_attempt(int64_t after = 0);
  void suspend(MemberId member);
  void give_up(MemberId member);
  void exclude_accused();
  std::optional<MemberId> most_accused() const;
  bool all_stopped() const;
  bool all_fenced() const;
  /// Of the last generation's members, those who are there.
  std::vector<MemberId> left() const;
  /// Those and then others that are there.
  std::vector<MemberId> candidates() const;
  void propose();
  void commit();

  Rules rules_;
  Record record_;
  int64_t logged_;
  int64_t synced_ = 0;  ///< the last step that the log cannot lose any more
  Phase phase_ = Phase::runs;
  int64_t after_ = 0;  ///< of this attempt
  std::map<MemberId, Present> present_;
  std::set<MemberId> given_up_;
  std::map<MemberId, std::optional<bool>> fences_;       ///< of this attempt: whether it has ended
  std::set<std::pair<MemberId, MemberId>> accusations_;  ///< connections that one end says to be lost
  bool state_lost_ = false;
  Generation next_;
  std::vector<StepOutcome> outcomes_;   ///< up to its base
  std::vector<MemberId> participants_;  ///< its members, and those who give what they hold
  std::vector<Action> actions_;
};

}  // namespace telar::recovery
