#include "telar/comm/members/member_registry.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "telar/core/error.h"
#include "telar/core/median.h"

namespace telar {
namespace {

constexpr size_t kMostMetrics = (1 << 17) + 64;  // those of nn/metrics.cpp, and the loss
constexpr int64_t kMostSamples = int64_t{1} << 40;
/// When a member that holds work and reports nothing is named: after so many seconds, and so many times the
/// median of the last parts' durations.
constexpr double kSilent = 30;
constexpr double kSilentParts = 10;
constexpr size_t kDurations = 101;
/// After a longer time without a tick, nobody's silence means anything.
constexpr std::chrono::seconds kStopped{5};

double median_of_last(const std::deque<double>& durations) {
  return durations.empty() ? 0 : median_of(std::vector<double>(durations.begin(), durations.end()));
}

void check_figures(const PartDone& part) {
  const auto sound = [](double value) { return std::isfinite(value) && value >= 0; };
  if (part.samples < 0 || part.samples > kMostSamples || part.metrics.size() > kMostMetrics ||
      !sound(part.staleness) || !sound(part.seconds))
    throw user_error("a report of {} samples, {} metrics, staleness {} and {} seconds is not possible",
                     part.samples, part.metrics.size(), part.staleness, part.seconds);
}

}  // namespace

MemberRegistry::MemberRegistry(const CoordinatorOptions& options)
    : options_(options), works_before_(options.works_before), last_round_(options.rounds_before) {
  if (options.workers < 1 || options.backups < 0 || options.parts < 1)
    throw user_error("{} workers, {} backups and {} parts are not possible", options.workers, options.backups,
                     options.parts);
}

uint32_t MemberRegistry::join(const std::string& name) {
  const uint32_t id = ++last_id_;
  Member& member = members_[id];
  member.name = name;
  assign_seats();
  news_.push_back(member.seat ? fmt::format("{} joined as worker {}", name, *member.seat + 1)
                              : fmt::format("{} joined as a spare", name));
  settle();
  return id;
}

int64_t MemberRegistry::remove(uint32_t id) {
  const int64_t parts = book_ ? book_->give_back_all(id) : 0;
  members_.erase(id);
  seat_spares();
  settle();
  return parts;
}

std::string MemberRegistry::name(uint32_t id) const {
  const auto member = members_.find(id);
  return member == members_.end() ? fmt::format("a former member ({})", id) : member->second.name;
}

void MemberRegistry::seat_spares() {
  std::set<uint32_t> spares;
  for (const auto& [other, member] : members_)
    if (!member.seat) spares.insert(other);
  assign_seats();
  for (const uint32_t spare : spares)
    if (members_.at(spare).seat) news_.push_back(fmt::format("{} steps in", members_.at(spare).name));
}

/// Ids increase, so the first member without a seat has waited longest.
void MemberRegistry::assign_seats() {
  std::set<int64_t> taken;
  for (const auto& [id, member] : members_)
    if (member.seat) taken.insert(*member.seat);
  int64_t seat = 0;
  for (auto& [id, member] : members_) {
    if (member.seat) continue;
    while (taken.contains(seat)) ++seat;
    if (seat >= options_.workers + options_.backups) return;
    member.seat = seat++;
  }
}

void MemberRegistry::gather(std::optional<Time> now) {
  if (gathered_) return;
  const auto asked =
      std::ranges::count_if(members_, [this](const Entry& entry) { return at_work(entry.second); });
  const bool waited = now && first_asked_ &&
                      std::chrono::duration<double>(*now - *first_asked_).count() >= options_.gather_seconds;
  gathered_ = options_.rhythm == Rhythm::free || asked >= options_.workers || (waited && asked > 0);
}

LeaseBook::Claims MemberRegistry::claims() const {
  LeaseBook::Claims claims;
  if (options_.rhythm == Rhythm::free) return claims;
  claims.resize(static_cast<size_t>(options_.parts));
  for (const auto& [id, member] : members_)
    if (at_work(member) && !is_backup(member)) claims[static_cast<size_t>(preferred(member))] = true;
  return claims;
}

std::optional<int64_t> MemberRegistry::work_for(const Entry& entry, const LeaseBook::Claims& claims) const {
  const auto& [id, member] = entry;
  if (!book_ || !gathered_ || !at_work(member) || *member.seat >= options_.workers + options_.backups)
    return std::nullopt;
  const std::optional<int64_t> step = book_->available(id, preferred(member), claims);
  return step && book_->shares(id, *step) ? std::nullopt : step;
}

std::function<bool(uint32_t)> MemberRegistry::not_ready() const {
  return [this](uint32_t id) { return !members_.at(id).ready; };
}

bool MemberRegistry::copies(const Entry& entry) const {
  return book_ && gathered_ && options_.rhythm == Rhythm::rounds && at_work(entry.second) &&
         is_backup(entry.second) && book_->copyable(entry.first, not_ready());
}

std::optional<Lease> MemberRegistry::take(const Entry& entry, const LeaseBook::Claims& claims) {
  const auto& [id, member] = entry;
  std::optional<Lease> lease;
  if (work_for(entry, claims)) {
    lease = book_->take(id, preferred(member), claims);
  } else if (copies(entry)) {
    lease = book_->copy(id, not_ready());
  }
  if (lease && !places_.empty()) {
    const auto from = places_.begin() + (lease->begin - places_first_);
    lease->places.assign(from, from + (lease->end - lease->begin + 1));
  }
  return lease;
}

bool MemberRegistry::has_work(const Entry& entry, const LeaseBook::Claims& claims) const {
  return at_work(entry.second) &&
         ((book_ && book_->holds_work(entry.first)) || work_for(entry, claims) || copies(entry));
}

std::optional<int64_t> MemberRegistry::slowest_beside(uint32_t id, const LeaseBook::Claims& claims) const {
  std::optional<int64_t> slowest;
  for (const Entry& entry : members_)
    if (entry.first != id && has_work(entry, claims))
      slowest = std::min(slowest.value_or(entry.second.clock), entry.second.clock);
  return slowest;
}

void MemberRegistry::settle() {
  gather(std::nullopt);
  offer_work();
  form_rounds();
  let_go_on();
  tell_missing();
}

void MemberRegistry::dismiss_spares() {
  if (!spares_leave_) return;
  for (auto at = members_.begin(); at != members_.end();) {
    const auto& [id, member] = *at;
    const bool leaves = !member.seat && member.wants_work;
    if (leaves) {
      answers_.push_back({id, Leave{}});
      news_.push_back(fmt::format("{} is not needed any more and leaves", member.name));
    }
    at = leaves ? members_.erase(at) : std::next(at);
  }
}

void MemberRegistry::offer_work() {
  dismiss_spares();
  const LeaseBook::Claims claimed = claims();
  for (Entry& entry : members_) {
    auto& [id, member] = entry;
    if (!member.wants_work || (!work_for(entry, claimed) && !copies(entry))) continue;
    member.wants_work = false;
    member.clock = std::max(member.clock, slowest_beside(id, claimed).value_or(0));
    answers_.push_back({id, WorkThere{}});
  }
}

void MemberRegistry::form_rounds() {
  std::set<int64_t> works;
  for (const auto& [id, member] : members_)
    if (member.ready) works.insert(*member.ready);
  for (const int64_t work : works) form_round(work);
}

void MemberRegistry::form_round(int64_t work) {
  if (!book_ || book_->applied(work)) return close_round(work, {}, {});
  const std::vector<std::vector<uint32_t>> holders = book_->holders(work);
  std::vector<uint32_t> chosen;
  bool complete = true;
  for (const std::vector<uint32_t>& of_part : holders) {
    const auto ready =
        std::ranges::find_if(of_part, [&](uint32_t id) { return members_.at(id).ready == work; });
    if (ready == of_part.end())
      complete = false;
    else if (std::ranges::find(chosen, *ready) == chosen.end())
      chosen.push_back(*ready);
  }
  if (complete) return close_round(work, holders, chosen);
  hand_out(work);
}

/// The update of this piece is made with what the chosen members have computed, without that of others.
void MemberRegistry::close_round(int64_t work, const std::vector<std::vector<uint32_t>>& holders,
                                 const std::vector<uint32_t>& chosen) {
  const auto is_chosen = [&](uint32_t id) { return std::ranges::find(chosen, id) != chosen.end(); };
  for (const std::vector<uint32_t>& of_part : holders)
    for (const uint32_t id : of_part)
      if (!is_chosen(id)) book_->drop(id, work);
  if (!chosen.empty()) ++last_round_;
  for (auto& [id, member] : members_) {
    if (member.ready != work) continue;
    member.ready.reset();
    answers_.push_back({id, is_chosen(id) ? StoreRound{last_round_, chosen} : StoreRound{}});
  }
}

/// Members that have nothing else to do take parts that nobody holds.
void MemberRegistry::hand_out(int64_t work) {
  for (Entry& entry : members_) {
    auto& [id, member] = entry;
    if (member.ready != work) continue;
    const LeaseBook::Claims claimed = claims();
    const std::optional<int64_t> free = book_->available(id, preferred(member), claimed);
    if (free && *free < book_->end_of(work) && book_->shares(id, *free)) {
      book_->drop(id, work);
      member.ready.reset();
      answers_.push_back({id, StoreRound{}});
      continue;
    }
    const std::optional<int64_t> step = work_for(entry, claimed);
    if (!step || *step >= book_->end_of(work)) continue;
    member.ready.reset();
    answers_.push_back({id, take(entry, claimed)});
  }
}

bool MemberRegistry::may_go_on(const Entry& entry, const LeaseBook::Claims& claims) const {
  const auto& [id, member] = entry;
  if (options_.rhythm == Rhythm::rounds) return !book_ || *member.wants_pace <= book_->current_work();
  const std::optional<int64_t> slowest =
      options_.staleness_bound >= 0 ? slowest_beside(id, claims) : std::nullopt;
  return !slowest || member.clock - *slowest <= options_.staleness_bound;
}

void MemberRegistry::let_go_on() {
  const LeaseBook::Claims claimed = claims();
  for (Entry& entry : members_) {
    auto& [id, member] = entry;
    if (!member.wants_pace) continue;
    if (may_go_on(entry, claimed)) {
      member.wants_pace.reset();
      answers_.push_back({id, MayGoOn{}});
      continue;
    }
    if (options_.rhythm == Rhythm::free) continue;
    const std::optional<int64_t> step = work_for(entry, claimed);
    if (!step || *step >= book_->end_of(book_->current_work())) continue;
    member.wants_pace.reset();
    answers_.push_back({id, take(entry, claimed)});
  }
}

/// Once for each worker that is missing, so that nobody wonders why a run is slow.
void MemberRegistry::tell_missing() {
  if (options_.rhythm == Rhythm::free || !gathered_ || epoch_finished()) return;
  const auto here = std::ranges::count_if(members_, [this](const Entry& entry) {
    return at_work(entry.second) && *entry.second.seat < options_.workers;
  });
  if (here == 0) return;
  const int64_t missing = options_.workers - here;
  if (missing > told_missing_)
    news_.push_back(fmt::format(
        "warning: {} of {} workers {} missing; the others compute {} parts of each batch until {} there",
        missing, options_.workers, missing == 1 ? "is" : "are", missing == 1 ? "its" : "their",
        missing == 1 ? "another is" : "others are"));
  told_missing_ = missing;
}

void MemberRegistry::ask_work(uint32_t id, Time now) {
  Member& member = members_.at(id);
  member.has_asked = true;
  member.wants_work = true;
  if (!first_asked_) first_asked_ = now;
  settle();
}

void MemberRegistry::ask_lease(uint32_t id) {
  answers_.push_back({id, take(*members_.find(id), claims())});
  settle();
}

void MemberRegistry::ask_round(uint32_t id, int64_t work, const std::set<uint64_t>& leases) {
  Member& member = members_.at(id);
  if (book_ && at_work(member) && options_.rhythm == Rhythm::rounds && !leases.empty() &&
      book_->holds(id, work, leases)) {
    member.ready = work;
  } else {  // others have done some of it meanwhile
    if (book_) book_->give_back_work(id, work);
    answers_.push_back({id, StoreRound{}});
  }
  settle();
}

void MemberRegistry::ask_pace(uint32_t id, int64_t work) {
  members_.at(id).wants_pace = work;
  settle();
}

void MemberRegistry::done(uint32_t id, const PartDone& part) {
  check_figures(part);
  const std::optional<int64_t> which = book_ ? book_->part_of(id, part.lease, part.step) : std::nullopt;
  if (!which) return;
  auto& reports = reports_[part.step];
  if (!reports.empty() && reports.begin()->second.metrics.size() != part.metrics.size())
    throw user_error("a report of {} metrics does not match others of {}", part.metrics.size(),
                     reports.begin()->second.metrics.size());
  book_->done(id, part.lease, part.step);
  clear_seats();
  reports[*which] = part;
  durations_.push_back(part.seconds);
  if (durations_.size() > kDurations) durations_.pop_front();
  Member& member = members_.at(id);
  member.reported = true;
  ++member.clock;
  ++member.parts;
  member.samples += part.samples;
  member.staleness += part.staleness;
  if (static_cast<int64_t>(reports.size()) == options_.parts) complete(part.step);
  settle();
}

/// Sums are taken in the order of the parts, never of arrival.
void MemberRegistry::complete(int64_t step) {
  const auto reports = reports_.extract(step);
  StepDone all{.epoch = book_->epoch(), .step = step};
  for (const auto& [number, part] : reports.mapped()) {
    all.samples += part.samples;
    all.metrics.resize(part.metrics.size());
    for (size_t i = 0; i < part.metrics.size(); ++i) all.metrics[i] += part.metrics[i];
    all.staleness += part.staleness / static_cast<double>(options_.parts);
    all.seconds = std::max(all.seconds, part.seconds);
    all.busy_seconds += part.seconds;
    all.latency.add(part.latency);
  }
  complete_.push_back(std::move(all));
}

void MemberRegistry::give_back(uint32_t id, uint64_t lease, int64_t step) {
  members_.at(id).reported = true;
  if (book_) book_->give_back(id, lease, step);
  clear_seats();
  settle();
}

void MemberRegistry::begin_epoch(uint32_t epoch, int64_t first, int64_t steps, const std::string& place) {
  if (book_) works_before_ = book_->works();
  book_.emplace(epoch, first, steps, options_.parts, options_.sizes, works_before_);
  places_.clear();
  places_first_ = first;
  if (!place.empty()) {
    places_.push_back(place);
    book_->exist_before(first);
  }
  reports_.clear();
  for (auto& [id, member] : members_) member.clock = 0;
  settle();
}

void MemberRegistry::extend(const std::vector<std::string>& places) {
  while (places_first_ < book_->done_before()) {
    places_.pop_front();
    ++places_first_;
  }
  places_.insert(places_.end(), places.begin(), places.end());
  book_->exist_before(places_first_ + std::ssize(places_) - 1);
  settle();
}

int64_t MemberRegistry::unbegun() const {
  return places_.empty() ? 0 : places_first_ + std::ssize(places_) - 1 - book_->begun_before();
}

void MemberRegistry::resize(int64_t workers, bool spares_leave) {
  if (workers < 1 || options_.rhythm != Rhythm::free)
    throw user_error("{} workers are not possible; their number changes only without rounds", workers);
  options_.workers = workers;
  spares_leave_ = spares_leave;
  clear_seats();
  seat_spares();
  settle();
}

void MemberRegistry::clear_seats() {
  for (auto& [id, member] : members_)
    if (member.seat >= options_.workers + options_.backups && !(book_ && book_->holds_work(id))) {
      member.seat.reset();
      news_.push_back(fmt::format("{} becomes a spare", member.name));
    }
}

void MemberRegistry::drain() {
  if (book_) book_->drain();
  settle();
}

void MemberRegistry::tick(Time now) {
  name_silent(now);
  if (gathered_) return;
  gather(now);
  settle();
}

/// Nothing ends a lease but its member's loss: a member may be slow, and its work would be done twice.
void MemberRegistry::name_silent(Time now) {
  const bool stopped = last_tick_ && now - *last_tick_ > kStopped;  // this process was
  last_tick_ = now;
  for (auto& [id, member] : members_) {
    const bool waits = member.ready || member.wants_pace || !book_ || !book_->holds_work(id);
    const double seconds = std::chrono::duration<double>(now - member.heard).count();
    if (std::exchange(member.reported, false) || waits || stopped) {
      if (std::exchange(member.named, 0) > 0 && !stopped)
        news_.push_back(
            fmt::format("{} goes on, after {:.0f} s in which it completed nothing", member.name, seconds));
      member.heard = now;
      continue;
    }
    if (seconds < std::max({kSilent, kSilentParts * median_of_last(durations_), 2 * member.named})) continue;
    member.named = seconds;
    news_.push_back(fmt::format("warning: {} holds a lease, but has completed nothing for {:.0f} s",
                                member.name, seconds));
  }
}

std::vector<MemberInfo> MemberRegistry::members() const {
  std::vector<MemberInfo> all;
  for (const auto& [id, member] : members_)
    all.push_back({.id = id,
                   .name = member.name,
                   .working = at_work(member),
                   .samples = member.samples,
                   .staleness = member.parts > 0 ? member.staleness / static_cast<double>(member.parts) : 0});
  return all;
}

}  // namespace telar
