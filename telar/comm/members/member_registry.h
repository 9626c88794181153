#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/comm/members/part_done.h"
#include "telar/comm/store/store_round.h"
#include "telar/data/streams/lease_book.h"

namespace telar {

/// The state of the coordinator's members and all decisions about them, without network, threads or clock. A
/// member's question is answered as soon as possible: call take_answers() after each call. Not thread-safe.
///
/// **Seats.** There are workers + backups seats. A new member gets the lowest free seat. The others are
/// spares; when a seat becomes free, the spare that has waited longest takes it. A worker's seat prefers part
/// = seat of every batch, and claims it as soon as the member has asked for work (before that it may still be
/// compiling). A backup claims none; it copies parts that are not ready.
///
/// **Rounds.** A round has all parts of one piece of work (of one batch, if no worker averages), whoever
/// computes them. A member gets the earliest work that is nobody else's, so the parts of a worker that has
/// left or never came are shared by those who are there, who compute them one after another with the same
/// parameters. A member that has computed all parts that it holds of a piece asks for the round. As soon as
/// every part is held by a member that has asked, these form the round, listed in the order of their parts.
/// If a part is free instead, a member that has asked gets it in answer, and asks again. If the piece was
/// applied meanwhile, or others had copies ready first, the answer is a round without members: its update is
/// made without this one. What a member pushes is a sum, so a member of whose parts a backup has a copy gets
/// no other part of the same piece; if one is free, it loses the one that another has, too. No wait is
/// endless as long as each member reports, asks or is lost.
///
/// Pieces are applied one after another. A member that holds a part of a later one asks for its turn, which
/// comes when all earlier ones are applied; then it reads the parameters. If earlier work is free, it gets
/// that in answer. Their reports may be missing: a member that has taken over one of an applied piece
/// (Lease::applied) may wait for a round before it makes it.
///
/// In the first epoch, no work is given out before `workers` members have asked for it, or gather_seconds
/// have passed since the first request.
///
/// **Free.** Each member proceeds at its own pace, within the staleness bound if there is one: a member waits
/// when its clock (parts done in this epoch) is more than the bound ahead of the slowest member with work.
/// The slowest never waits. A member that starts to work later starts at the slowest member's clock.
class MemberRegistry {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct WorkThere {};
  struct MayGoOn {};
  struct Leave {};  ///< the member is not needed any more
  using AnswerValue = std::variant<WorkThere, MayGoOn, Leave, std::optional<Lease>, StoreRound>;
  struct Answer {
    uint32_t member = 0;
    AnswerValue value;
  };

  /// Throws Error (user) for impossible numbers.
  explicit MemberRegistry(const CoordinatorOptions& options);

  uint32_t join(const std::string& name);
  /// The member has left or is lost. Returns the number of parts that it leaves to others.
  int64_t remove(uint32_t id);

  // Questions and reports of members. `id` must come from join() and not have been removed.
  void ask_work(uint32_t id, Time now);
  void ask_lease(uint32_t id);
  /// Answered by a StoreRound or a Lease. `work`: the piece of which it has computed the parts of these
  /// leases.
  void ask_round(uint32_t id, int64_t work, const std::set<uint64_t>& leases);
  /// Answered by MayGoOn or, in rounds, a Lease. `work`: the piece that it wants to begin.
  void ask_pace(uint32_t id, int64_t work);
  /// Reports about a lease that the member does not hold are ignored. Throws Error (user) for impossible
  /// figures.
  void done(uint32_t id, const PartDone& part);
  void give_back(uint32_t id, uint64_t lease, int64_t step);

  /// `place`: of an epoch whose steps come to exist one after another, where step `first` begins; empty: all
  /// steps exist, and are found by their numbers.
  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps, const std::string& place = {});
  /// The next steps of such an epoch exist: where each of them ends.
  void extend(const std::vector<std::string>& places);
  /// Steps that exist and of which no part was ever leased.
  int64_t unbegun() const;
  /// Rhythm::free: from now on so many members work at once. Those with a higher seat become spares when they
  /// have done their leases, and spares step in. With `spares_leave`, spares are told that they are no longer
  /// needed (Leave), and are members no more.
  void resize(int64_t workers, bool spares_leave);
  void drain();
  bool epoch_finished() const { return !book_ || book_->finished(); }
  int64_t steps_done() const { return book_ ? book_->done_before() : 0; }
  /// Handles what depends on the clock alone: the wait for the first members, and members that hold work but
  /// report nothing for 30 seconds and ten times the median of a part's duration; these are named in the
  /// news, again when they have been silent for twice as long, and when it is over.
  void tick(Time now);

  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  std::vector<StepDone> take_steps() { return std::exchange(complete_, {}); }
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }
  std::vector<MemberInfo> members() const;
  std::string name(uint32_t id) const;

 private:
  struct Member {
    std::string name;
    std::optional<int64_t> seat;
    bool has_asked = false;
    bool wants_work = false;
    std::optional<int64_t> wants_pace;  ///< for which piece of work
    std::optional<int64_t> ready;       ///< with which piece of work
    int64_t clock = 0;
    int64_t samples = 0;
    int64_t parts = 0;
    double staleness = 0;  ///< sum over its parts
    bool reported = true;  ///< since the last tick, or it held no work then
    Time heard = {};       ///< the last tick for which that is true
    double named = 0;      ///< seconds of silence after which the news named it last; 0: not yet
  };
  using Entry = std::pair<const uint32_t, Member>;

  bool is_backup(const Member& member) const { return *member.seat >= options_.workers; }
  int64_t preferred(const Member& member) const {
    return is_backup(member) ? -1 : *member.seat % options_.parts;
  }
  bool at_work(const Member& member) const { return member.seat.has_value() && member.has_asked; }
  /// The first step of the lease that take() would return.
  std::optional<int64_t> work_for(const Entry& entry, const LeaseBook::Claims& claims) const;
  std::optional<Lease> take(const Entry& entry, const LeaseBook::Claims& claims);
  bool copies(const Entry& entry) const;
  std::function<bool(uint32_t)> not_ready() const;
  bool has_work(const Entry& entry, const LeaseBook::Claims& claims) const;
  LeaseBook::Claims claims() const;
  /// The clock of the slowest member with work, without this one.
  std::optional<int64_t> slowest_beside(uint32_t id, const LeaseBook::Claims& claims) const;

  void assign_seats();
  /// The same, with news of spares that step in.
  void seat_spares();
  void dismiss_spares();
  /// Takes the seats beyond the last one from members that have no lease.
  void clear_seats();
  void gather(std::optional<Time> now);
  void settle();
  void offer_work();
  void form_rounds();
  void form_round(int64_t work);
  void close_round(int64_t work, const std::vector<std::vector<uint32_t>>& holders,
                   const std::vector<uint32_t>& chosen);
  void hand_out(int64_t work);
  void let_go_on();
  bool may_go_on(const Entry& entry, const LeaseBook::Claims& claims) const;
  void tell_missing();
  void complete(int64_t step);
  void name_silent(Time now);

  CoordinatorOptions options_;
  std::map<uint32_t, Member> members_;
  uint32_t last_id_ = 0;
  std::optional<LeaseBook> book_;
  /// Of an epoch with places: where the steps from places_first_ on begin, and where the last one that exists
  /// ends.
  std::deque<std::string> places_;
  int64_t places_first_ = 0;
  bool spares_leave_ = false;
  int64_t works_before_;  ///< the number of the last piece of work before the book's
  bool gathered_ = false;
  std::optional<Time> first_asked_;
  int64_t last_round_ = 0;
  int64_t told_missing_ = 0;                                ///< how many workers are, as the news said last
  std::map<int64_t, std::map<int64_t, PartDone>> reports_;  ///< step, part
  std::deque<double> durations_;                            ///< seconds of the last parts
  std::optional<Time> last_tick_;
  std::vector<Answer> answers_;
  std::vector<StepDone> complete_;
  std::vector<std::string> news_;
};

}  // namespace telar
