#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "telar/comm/members/coordinator.h"
#include "telar/comm/members/part_done.h"
#include "telar/comm/store/store_round.h"
#include "telar/data/lease_book.h"

namespace telar {

/// The state of the coordinator's members and all decisions about them, without network, threads or clock. A
/// member's question is answered as soon as possible: call take_answers() after each call. Not thread-safe.
///
/// **Seats.** There are workers + backups seats. A new member gets the lowest free seat. The others are
/// spares; when a seat becomes free, the spare that has waited longest takes it. A seat prefers part = seat
/// (mod parts) of every batch.
///
/// **Members with work.** A member *has work* if it has a seat, has asked for work at least once (before that
/// it may still be compiling), and holds a lease, is ready for a round, or could take a lease at once. Other
/// members are waited for only while they have work. A lost member, a spare, or a member without work at the
/// end of an epoch therefore delays nobody, and a member between two leases still counts.
///
/// **Rounds.** A round has `workers` places, or as many as there are members with work if these are fewer. As
/// soon as that many members are ready, they form a round, listed in seat order. So every event that reduces
/// the number of members with work (a loss, the end of an epoch, leases taken by others) may form a round,
/// and a single member with work forms its own. No wait is endless as long as each member with work becomes
/// ready or is lost, because ready members wait only for such members. With backups, a member may find that a
/// round was formed since it last heard of one. It has computed with old parameters, so it gets no round and
/// its part goes to another member.
///
/// With rounds, a claimed part (one that a working member prefers) is reserved for that member, unless it was
/// given back. In the first epoch, no work is given out before `workers` members have asked for it, or
/// gather_seconds have passed since the first request. Without failures, round t therefore sums exactly the
/// parts of batch t, and the run equals that of one process.
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
  using AnswerValue =
      std::variant<WorkThere, MayGoOn, Leave, std::optional<Lease>, std::optional<StoreRound>>;
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
  void ask_round(uint32_t id);
  void ask_pace(uint32_t id);
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
    bool wants_pace = false;
    std::optional<uint64_t> ready;  ///< since when, as a running number
    int64_t heard_of_round = 0;
    bool reported_late = false;
    int64_t clock = 0;
    int64_t samples = 0;
    int64_t parts = 0;
    double staleness = 0;  ///< sum over its parts
    bool reported = true;  ///< since the last tick, or it held no work then
    Time heard = {};       ///< the last tick for which that is true
    double named = 0;      ///< seconds of silence after which the news named it last; 0: not yet
  };
  using Entry = std::pair<const uint32_t, Member>;

  int64_t preferred(const Member& member) const { return *member.seat % options_.parts; }
  bool at_work(const Member& member) const { return member.seat.has_value() && member.has_asked; }
  bool finds_work(const Member& member, const LeaseBook::Claims& claims) const;
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
  void let_go_on();
  void report_late(Member& member);
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
  uint64_t ready_so_far_ = 0;
  int64_t last_round_ = 0;
  std::map<int64_t, std::map<int64_t, PartDone>> reports_;  ///< step, part
  std::deque<double> durations_;                            ///< seconds of the last parts
  std::optional<Time> last_tick_;
  std::vector<Answer> answers_;
  std::vector<StepDone> complete_;
  std::vector<std::string> news_;
};

}  // namespace telar
