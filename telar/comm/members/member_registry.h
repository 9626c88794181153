#pragma once

#include <chrono>
#include <cstdint>
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

/// What the coordinator knows of its members and decides, apart from network, threads and clock. Questions of members are answered
/// when they can be: take_answers() after each call. Not for several threads at once.
///
/// **Seats.** Members get the lowest free one of workers + backups seats; others are spares that wait, and the one that waits
/// longest steps in. A seat prefers part = seat (mod parts) of every batch.
///
/// **Who counts.** A member *has work* when it works in a seat, has asked for work once (it may have been compiling before), and holds
/// a lease, is ready for a round, or could take a lease at once. Others are waited for only while they have work. So neither a
/// lost member, nor a spare, nor one that finds nothing to do at the end of an epoch holds anybody up; and one that is between two
/// leases is not forgotten.
///
/// **Rounds.** As soon as as many members are ready as a round has places (workers), or all that have work if these are fewer, they
/// make a round, listed in the order of their seats. So each event after which fewer have work (loss, end of an epoch, leases taken
/// by others) may form one, and a member with work that is alone forms its own. No wait is for ever as long as each member with work
/// becomes ready or is lost: ready ones are only ever waiting for such. With backups, a member for which a round has been
/// formed since it last heard of one computed with parameters of before: it gets none, and its part goes to somebody else.
///
/// In rounds a part that is claimed (preferred by a member at work) is left to that member, but for what was given back. And nobody
/// gets work of the first epoch before `workers` members have asked, or gather_seconds have passed since the first did.
/// Hence, without failures, the parts of batch t are what round t sums: the run equals that of one process.
///
/// **Free.** Each goes on as it likes, unless a staleness bound says: a member whose clock (parts done in this epoch) is more than the
/// bound ahead of the slowest that has work waits. The slowest never waits. Who comes to work later starts at the slowest's clock.
class MemberRegistry {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct WorkThere {};
  struct MayGoOn {};
  using AnswerValue = std::variant<WorkThere, MayGoOn, std::optional<Lease>, std::optional<StoreRound>>;
  struct Answer {
    uint32_t member = 0;
    AnswerValue value;
  };

  /// Throws Error (user) for numbers that make no sense.
  explicit MemberRegistry(const CoordinatorOptions& options);

  uint32_t join(const std::string& name);
  /// The member left, or is lost.
  void remove(uint32_t id);

  // What members ask and say. They are members: join() gave the id, and remove() has not been called.
  void ask_work(uint32_t id, Time now);
  void ask_lease(uint32_t id);
  void ask_round(uint32_t id);
  void ask_pace(uint32_t id);
  /// Reports about leases that the member does not have are ignored. Throws Error (user) for figures that cannot be.
  void done(uint32_t id, const PartDone& part);
  void give_back(uint32_t id, uint64_t lease, int64_t step);

  void begin_epoch(uint32_t epoch, int64_t first, int64_t steps);
  void drain();
  bool epoch_finished() const { return !book_ || book_->finished(); }
  int64_t steps_done() const { return book_ ? book_->done_before() : 0; }
  /// For what depends on the clock alone.
  void tick(Time now);

  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }
  std::vector<StepDone> take_steps() { return std::exchange(complete_, {}); }
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }
  std::vector<MemberInfo> members() const;
  const std::string& name(uint32_t id) const { return members_.at(id).name; }

 private:
  struct Member {
    std::string name;
    std::optional<int64_t> seat;
    bool has_asked = false;
    bool wants_work = false;
    bool wants_pace = false;
    std::optional<uint64_t> ready;  ///< since when, in order of all that became ready
    int64_t heard_of_round = 0;
    bool reported_late = false;
    int64_t clock = 0;
    int64_t samples = 0;
    int64_t parts = 0;
    double staleness = 0;  ///< sum over parts
  };
  using Entry = std::pair<const uint32_t, Member>;

  int64_t preferred(const Member& member) const { return *member.seat % options_.parts; }
  bool at_work(const Member& member) const { return member.seat.has_value() && member.has_asked; }
  bool finds_work(const Member& member, const LeaseBook::Claims& claims) const;
  bool has_work(const Entry& entry, const LeaseBook::Claims& claims) const;
  LeaseBook::Claims claims() const;
  /// The clock of the slowest member with work but for this one.
  std::optional<int64_t> slowest_beside(uint32_t id, const LeaseBook::Claims& claims) const;

  void assign_seats();
  void gather(std::optional<Time> now);
  void settle();
  void offer_work();
  void form_rounds();
  void let_go_on();
  void report_late(Member& member);
  void complete(int64_t step);

  CoordinatorOptions options_;
  std::map<uint32_t, Member> members_;
  uint32_t last_id_ = 0;
  std::optional<LeaseBook> book_;
  bool gathered_ = false;
  std::optional<Time> first_asked_;
  uint64_t ready_so_far_ = 0;
  int64_t last_round_ = 0;
  std::map<int64_t, std::map<int64_t, PartDone>> reports_;  ///< step, part
  std::vector<Answer> answers_;
  std::vector<StepDone> complete_;
  std::vector<std::string> news_;
};

}  // namespace telar
