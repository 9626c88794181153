#include "telar/comm/recovery/coordinator.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar::recovery {
namespace {

/// How many steps behind the last one in the log all will be when they hear that one joins: a line is written
/// when the next step is nearly made.
constexpr int64_t kStepsAhead = 3;

bool contains(const std::vector<MemberId>& members, MemberId id) {
  return std::ranges::find(members, id) != members.end();
}

}  // namespace

Coordinator::Coordinator(Rules rules, Record record, int64_t logged)
    : rules_(std::move(rules)), record_(std::move(record)), logged_(logged) {
  log(record_.outcomes);
  sync_log();
  if (record_.attempt > record_.committed.number) begin_attempt();  // who has stopped does not go on
}

void Coordinator::log(const std::vector<StepOutcome>& outcomes) {
  for (const StepOutcome& outcome : outcomes) {
    if (outcome.step != logged_ + 1) continue;  // it was said before, or will be again with those before it
    ++logged_;
    actions_.emplace_back(Log{outcome});
  }
}

void Coordinator::sync_log() {
  synced_ = logged_;
  actions_.emplace_back(SyncLog{});
}

void Coordinator::receive(MemberId from, const Report& report) {
  if (given_up_.contains(from)) return send(from, Dismiss{});
  std::visit([&](const auto& one) { take(from, one); }, report);
}

void Coordinator::take(MemberId from, const Hello& hello) {
  const Generation& committed = record_.committed;
  if (hello.generation > committed.number)
    throw run_error("a member is of generation {}, but the record of the run ends with {}", hello.generation,
                    committed.number);
  present_[from] = {};
  const bool member = committed.has(from);
  if (member && hello.generation != committed.number) send(from, Commit{committed.number});
  send(from, Logged{synced_});
  if (phase_ == Phase::stops) suspend(from);
  if (phase_ == Phase::prepares && contains(participants_, from)) begin_attempt();
  for (const MemberId whom : hello.unreachable) take(from, Accuse{hello.generation, whom});
  settle();
}

void Coordinator::take(MemberId from, const Accuse& accuse) {
  const bool prepares = phase_ == Phase::prepares;
  if (accuse.number != (prepares ? next_ : record_.committed).number || given_up_.contains(accuse.whom))
    return;
  accusations_.insert(std::minmax(from, accuse.whom));
  if (phase_ != Phase::stops || after_ > 0) begin_attempt();
}

void Coordinator::take(MemberId from, const Stopped& stopped) {
  if (phase_ != Phase::stops || stopped.attempt != record_.attempt) return;
  present_.at(from).stopped = stopped;
  settle();
}

void Coordinator::take(MemberId from, const Ready& ready) {
  if (phase_ != Phase::prepares || ready.attempt != next_.number) return;
  present_.at(from).ready = true;
  settle();
}

void Coordinator::take(MemberId /*from*/, const Line& line) {
  if (line.generation != record_.committed.number) return;
  const int64_t before = logged_;
  log({line.outcome});
  if (logged_ == before || logged_ % rules_.sync_steps != 0) return;
  sync_log();
  for (const auto& [id, present] : present_) send(id, Logged{synced_});
}

void Coordinator::lost(MemberId member) {
  if (given_up_.contains(member)) return;
  give_up(member);
  const bool prepares = phase_ == Phase::prepares && contains(participants_, member);
  const bool makes_steps = phase_ == Phase::stops && after_ > 0 && record_.committed.has(member);
  if (prepares || makes_steps) begin_attempt();
  settle();
}

void Coordinator::give_up(MemberId member) {
  if (present_.erase(member) > 0) send(member, Dismiss{});
  given_up_.insert(member);
  std::erase_if(accusations_,
                [&](const auto& pair) { return pair.first == member || pair.second == member; });
  if (!record_.committed.has(member)) return;
  fences_[member] = std::nullopt;
  actions_.emplace_back(Fence{member});
}

void Coordinator::fenced(MemberId member, bool ended) {
  const auto fence = fences_.find(member);
  if (fence == fences_.end()) return;
  fence->second = ended;
  settle();
}

void Coordinator::go_back(int64_t step) {
  state_lost_ = false;
  logged_ = synced_ = step;
  record_.committed = {.number = record_.attempt, .members = {}, .base = step};
  record_.outcomes.clear();
  begin_attempt();
  settle();
}

void Coordinator::settle() {
  if (phase_ == Phase::runs) {
    const std::vector<MemberId>& members = record_.committed.members;
    const bool one_lost =
        std::ranges::any_of(members, [this](MemberId id) { return given_up_.contains(id); });
    const bool one_joins =
        std::ranges::any_of(present_, [&](const auto& entry) { return !contains(members, entry.first); });
    if (one_lost)
      begin_attempt();
    else if (one_joins && rules_.grid(candidates()) != members)
      begin_attempt(logged_ + kStepsAhead);
  }
  if (phase_ == Phase::stops && all_stopped() && !state_lost_) {
    exclude_accused();
    if (all_fenced()) propose();
  }
  if (phase_ == Phase::prepares &&
      std::ranges::all_of(participants_, [this](MemberId id) { return present_.at(id).ready; }))
    commit();
}

void Coordinator::begin_attempt(int64_t after) {
  phase_ = Phase::stops;
  after_ = after;
  record_.attempt = std::max(record_.attempt, record_.committed.number) + 1;
  actions_.emplace_back(Store{record_});
  for (auto& [id, present] : present_) {
    present = {};
    suspend(id);
  }
}

/// Others make no step, or one of a generation that is gone.
void Coordinator::suspend(MemberId member) {
  send(member, Suspend{record_.attempt, record_.committed.has(member) ? after_ : 0});
}

std::vector<MemberId> Coordinator::left() const {
  std::vector<MemberId> left = record_.committed.members;
  std::erase_if(left, [this](MemberId id) { return given_up_.contains(id); });
  return left;
}

std::vector<MemberId> Coordinator::candidates() const {
  std::vector<MemberId> all = left();
  for (const auto& [id, present] : present_)
    if (!record_.committed.has(id)) all.push_back(id);
  return all;
}

bool Coordinator::all_stopped() const {
  return std::ranges::all_of(candidates(), [this](MemberId id) {
    const auto present = present_.find(id);
    return present != present_.end() && present->second.stopped;
  });
}

bool Coordinator::all_fenced() const {
  return std::ranges::all_of(fences_, [](const auto& fence) { return fence.second.has_value(); });
}

void Coordinator::exclude_accused() {
  while (const std::optional<MemberId> worst = most_accused()) give_up(*worst);
}

/// Who has the most lost connections; of those with equally many, the one that came last.
std::optional<MemberId> Coordinator::most_accused() const {
  std::optional<MemberId> worst;
  int64_t most = 1;
  for (const MemberId id : candidates()) {
    const int64_t links = std::ranges::count_if(
        accusations_, [&](const auto& pair) { return pair.first == id || pair.second == id; });
    if (links < most) continue;
    most = links;
    worst = id;
  }
  return worst;
}

void Coordinator::propose() {
  const Generation& from = record_.committed;
  const std::vector<MemberId> sources = left();
  if (!from.members.empty() && !rules_.whole(from.members, sources)) {
    state_lost_ = true;
    actions_.emplace_back(StateLost{});
    return;
  }
  next_ = {.number = record_.attempt, .members = rules_.grid(candidates()), .base = from.base};
  if (next_.members.empty()) return;  // one that joins calls settle()
  outcomes_.clear();
  for (const MemberId id : sources) {
    const Stopped& stopped = *present_.at(id).stopped;
    if (stopped.generation != from.number)
      throw run_error("a member of generation {} says that it is of {}", from.number, stopped.generation);
    if (stopped.applied <= next_.base) continue;
    next_.base = stopped.applied;
    outcomes_ = stopped.outcomes;
  }
  participants_ = sources;
  for (const MemberId id : next_.members)
    if (!contains(sources, id)) participants_.push_back(id);
  const bool new_memory = sources.empty() || std::ranges::any_of(fences_, [](const auto& fence) {
                            return fence.second == false;
                          });
  const StepOutcome outcome = outcomes_.empty() ? StepOutcome{} : outcomes_.back();
  phase_ = Phase::prepares;
  for (const MemberId id : participants_) send(id, Prepare{next_, from, sources, outcome, new_memory});
}

void Coordinator::commit() {
  phase_ = Phase::runs;
  sync_log();  // with the outcomes of the last record
  record_.committed = next_;
  record_.outcomes = std::move(outcomes_);
  actions_.emplace_back(Store{record_});
  log(record_.outcomes);
  for (const MemberId id : participants_) send(id, Commit{next_.number});
  fences_.clear();
  settle();
}

}  // namespace telar::recovery
