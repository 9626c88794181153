#include "telar/data/streams/lease_book.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "telar/core/error.h"

namespace telar {

namespace {

/// More steps than a training has.
constexpr int64_t kMostWork = int64_t{1} << 40;

/// Whether each step of the lease has a piece of work that is possible.
bool are_works(const Lease& lease) {
  return std::ssize(lease.works) == lease.end - lease.begin &&
         std::ranges::all_of(lease.works, [](int64_t work) { return work >= 1 && work <= kMostWork; });
}

}  // namespace

void check_lease(const Lease& lease, int64_t steps, int64_t parts) {
  if (lease.begin < 0 || lease.begin >= lease.end || lease.end > steps || lease.part < 0 ||
      lease.part >= parts || !are_works(lease) ||
      (!lease.places.empty() && std::ssize(lease.places) != lease.end - lease.begin + 1))
    throw user_error(
        "the coordinator leases part {} of batches {} to {}, but an epoch has {} batches of {} parts here; all processes must have the same data",
        lease.part, lease.begin, lease.end, steps, parts);
}

LeaseBook::LeaseBook(uint32_t epoch, int64_t first, int64_t steps, int64_t parts, LeaseSizes sizes,
                     int64_t works_before)
    : epoch_(epoch),
      steps_(steps),
      existing_(steps),
      sizes_(sizes),
      works_(works_before),
      done_before_(first),
      last_lease_((uint64_t{epoch} + 1) << 32),  // so that a late report of another epoch finds no lease
      next_(static_cast<size_t>(std::max<int64_t>(parts, 0)), first) {
  if (first < 0 || first > steps || parts < 1 || sizes.work < 1 || sizes.lease < sizes.work ||
      sizes.lease % sizes.work != 0 || works_before < 0)
    throw user_error(
        "Steps {} to {} in {} parts, leased {} at a time in pieces of {} from number {}, are not possible",
        first, steps, parts, sizes.lease, sizes.work, works_before + 1);
}

std::optional<int64_t> LeaseBook::fresh_part(uint32_t member, int64_t preferred,
                                             const Claims& claimed) const {
  const auto parts = std::ssize(next_);
  const int64_t end = std::min(steps_, existing_);
  const int64_t members = std::max<int64_t>(1, std::ranges::count(claimed, true));
  const int64_t share = (parts + members - 1) / members;
  std::optional<int64_t> best;
  for (int64_t part = 0; part < parts; ++part) {
    const auto at = static_cast<size_t>(part);
    if (next_[at] >= end) continue;
    const bool others = at < claimed.size() && claimed[at];
    if (part != preferred && (others || parts_held(member, next_[at]) >= share)) continue;
    const int64_t earliest = best ? next_[static_cast<size_t>(*best)] : end;
    if (next_[at] < earliest || (next_[at] == earliest && part == preferred)) best = part;
  }
  return best;
}

bool LeaseBook::takes_returned(std::optional<int64_t> fresh) const {
  return !returned_.empty() &&
         (!fresh || returned_.begin()->first.first <= next_[static_cast<size_t>(*fresh)]);
}

std::optional<int64_t> LeaseBook::available(uint32_t member, int64_t preferred, const Claims& claimed) const {
  const std::optional<int64_t> fresh = fresh_part(member, preferred, claimed);
  if (takes_returned(fresh)) return returned_.begin()->first.first;
  return fresh ? std::optional(next_[static_cast<size_t>(*fresh)]) : std::nullopt;
}

std::optional<Lease> LeaseBook::take(uint32_t member, int64_t preferred, const Claims& claimed) {
  const std::optional<int64_t> fresh = fresh_part(member, preferred, claimed);
  const bool several = next_.size() == 1;  // pieces of work in a lease
  Lease lease;
  if (takes_returned(fresh)) {
    // The earliest returned step of any part, then the steps of that part that follow it without a gap:
    // enough of them, and whole pieces of work.
    std::tie(lease.begin, lease.part) = returned_.begin()->first;
    lease.end = lease.begin;
    const auto wanted = [&](int64_t work) {
      return lease.works.empty() || lease.works.back() == work ||
             (several && std::ssize(lease.works) < sizes_.lease && !applied(lease.works.front()));
    };
    for (auto next = returned_.begin(); next != returned_.end() && wanted(next->second);
         next = returned_.find({++lease.end, lease.part})) {
      lease.works.push_back(next->second);
      returned_.erase(next);
    }
    lease.applied = applied(lease.works.front());
  } else if (fresh) {
    int64_t& next = next_[static_cast<size_t>(*fresh)];
    lease.part = *fresh;
    lease.begin = lease.end = next;
    do {
      const Piece& piece = piece_from(lease.end);
      lease.works.insert(lease.works.end(), static_cast<size_t>(piece.end - lease.end), piece.work);
      lease.end = piece.end;
    } while (several && std::ssize(lease.works) < sizes_.lease && lease.end < std::min(steps_, existing_));
    next = lease.end;
  } else {
    return std::nullopt;
  }
  return leased(member, std::move(lease));
}

Lease LeaseBook::leased(uint32_t member, Lease lease) {
  lease.id = ++last_lease_;
  lease.epoch = epoch_;
  Held& held = held_[member][lease.id];
  held.part = lease.part;
  for (int64_t step = lease.begin; step < lease.end; ++step)
    held.steps.emplace_hint(held.steps.end(), step, lease.works[static_cast<size_t>(step - lease.begin)]);
  return lease;
}

const LeaseBook::Piece& LeaseBook::piece_from(int64_t step) {
  const auto [piece, is_new] = pieces_.try_emplace(step);
  if (is_new) piece->second = {std::min({steps_, existing_, step + sizes_.work}), ++works_};
  return piece->second;
}

LeaseBook::PiecePlace LeaseBook::piece(int64_t work) const {
  return std::ranges::find(pieces_, work, [](const auto& piece) { return piece.second.work; });
}

std::optional<int64_t> LeaseBook::end_of(int64_t work) const {
  const auto found = piece(work);
  return found == pieces_.end() ? std::nullopt : std::optional(found->second.end);
}

bool LeaseBook::reported(PiecePlace piece) const {
  if (done_before_ > piece->first) return true;
  const auto first = done_parts_.lower_bound(piece->first);
  return first != done_parts_.end() && first->first < piece->second.end;
}

bool LeaseBook::applied(int64_t work) const {
  const PiecePlace found = piece(work);
  return found == pieces_.end() || reported(found);
}

LeaseBook::PiecePlace LeaseBook::current() const {
  PiecePlace piece = pieces_.begin();
  while (piece != pieces_.end() && reported(piece)) ++piece;
  return piece;
}

std::vector<std::vector<uint32_t>> LeaseBook::holders(int64_t work) const {
  std::vector<std::vector<uint32_t>> holders(next_.size());
  for (const auto& [member, leases] : held_)
    for (const auto& [id, held] : leases)
      if (std::ranges::any_of(held.steps, [work](const auto& step) { return step.second == work; }))
        holders[static_cast<size_t>(held.part)].push_back(member);
  return holders;
}

int64_t LeaseBook::parts_held(uint32_t member, int64_t step) const {
  const auto leases = held_.find(member);
  if (leases == held_.end()) return 0;
  return std::ranges::count_if(leases->second,
                               [step](const auto& lease) { return lease.second.steps.contains(step); });
}

const LeaseBook::Held* LeaseBook::part_to_copy(uint32_t member,
                                               const std::function<bool(uint32_t)>& slow) const {
  if (current() == pieces_.end()) return nullptr;
  const int64_t step = current()->first;
  if (parts_held(member, step) > 0) return nullptr;
  for (const auto& [holder, leases] : held_) {
    if (parts_held(holder, step) != 1 || !slow(holder)) continue;
    for (const auto& [id, held] : leases)
      if (held.steps.contains(step) && leases_of(step, held.part).size() == 1) return &held;
  }
  return nullptr;
}

std::optional<Lease> LeaseBook::copy(uint32_t member, const std::function<bool(uint32_t)>& slow) {
  const Held* held = part_to_copy(member, slow);
  if (held == nullptr) return std::nullopt;
  copied_ = true;
  const auto& [begin, piece] = *current();
  Lease lease{.begin = begin, .end = piece.end, .part = held->part};
  lease.works.assign(static_cast<size_t>(piece.end - begin), piece.work);
  return leased(member, std::move(lease));
}

const LeaseBook::Held* LeaseBook::find(uint32_t member, uint64_t lease, int64_t step) const {
  const auto leases = held_.find(member);
  if (leases == held_.end()) return nullptr;
  const auto held = leases->second.find(lease);
  return held != leases->second.end() && held->second.steps.contains(step) ? &held->second : nullptr;
}

void LeaseBook::erase(uint32_t member, uint64_t lease, int64_t step) {
  const auto leases = held_.find(member);
  const auto held = leases->second.find(lease);
  held->second.steps.erase(step);
  if (held->second.steps.empty()) leases->second.erase(held);
  if (leases->second.empty()) held_.erase(leases);
}

std::optional<int64_t> LeaseBook::part_of(uint32_t member, uint64_t lease, int64_t step) const {
  const Held* held = find(member, lease, step);
  return held == nullptr ? std::nullopt : std::optional(held->part);
}

bool LeaseBook::done(uint32_t member, uint64_t lease, int64_t step) {
  const Held* held = find(member, lease, step);
  if (held == nullptr) return false;
  const auto at = held->steps.find(step);
  if (at != held->steps.begin() && std::prev(at)->second == at->second)
    throw user_error("the report of batch {} comes before that of batch {}, which is pushed with it", step,
                     std::prev(at)->first);
  const int64_t part = held->part;
  erase(member, lease, step);
  if (copied_)
    for (const auto& [other, copy] : leases_of(step, part)) erase(other, copy, step);
  ++done_parts_[step];
  const auto parts = static_cast<int64_t>(next_.size());
  for (auto first = done_parts_.begin();
       first != done_parts_.end() && first->first == done_before_ && first->second == parts;
       first = done_parts_.erase(first))
    ++done_before_;
  while (!pieces_.empty() && pieces_.begin()->second.end <= done_before_) pieces_.erase(pieces_.begin());
  return true;
}

void LeaseBook::give_back(uint32_t member, uint64_t lease, int64_t step) {
  const Held* held = find(member, lease, step);
  if (held == nullptr) return;
  const int64_t work = held->steps.at(step);
  std::vector<int64_t> steps;
  for (const auto& [other, of] : held->steps)
    if (of == work) steps.push_back(other);
  const int64_t part = held->part;
  for (const int64_t other : steps) {
    erase(member, lease, other);
    return_unless_copied(other, part, work);
  }
}

std::vector<std::pair<uint32_t, uint64_t>> LeaseBook::leases_of(int64_t step, int64_t part) const {
  std::vector<std::pair<uint32_t, uint64_t>> found;
  for (const auto& [member, leases] : held_)
    for (const auto& [id, held] : leases)
      if (held.part == part && held.steps.contains(step)) found.emplace_back(member, id);
  return found;
}

void LeaseBook::return_unless_copied(int64_t step, int64_t part, int64_t work) {
  if (!copied_ || leases_of(step, part).empty()) returned_.emplace(std::pair(step, part), work);
}

std::set<uint64_t> LeaseBook::leases_for(uint32_t member, int64_t work) const {
  std::set<uint64_t> found;
  const auto leases = held_.find(member);
  if (leases == held_.end()) return found;
  for (const auto& [id, held] : leases->second)
    if (std::ranges::any_of(held.steps, [work](const auto& step) { return step.second == work; }))
      found.insert(id);
  return found;
}

bool LeaseBook::holds(uint32_t member, int64_t work, const std::set<uint64_t>& leases) const {
  return leases_for(member, work) == leases;
}

bool LeaseBook::shares(uint32_t member, int64_t step) const {
  const auto leases = held_.find(member);
  return copied_ && leases != held_.end() && std::ranges::any_of(leases->second, [&](const auto& lease) {
           return lease.second.steps.contains(step) && leases_of(step, lease.second.part).size() > 1;
         });
}

void LeaseBook::give_back_work(uint32_t member, int64_t work) {
  for (const uint64_t lease : leases_for(member, work)) {
    const std::map<int64_t, int64_t>& steps = held_.at(member).at(lease).steps;
    const auto step = std::ranges::find(steps, work, [](const auto& one) { return one.second; });
    give_back(member, lease, step->first);
  }
}

void LeaseBook::drop(uint32_t member, int64_t work) {
  const auto leases = held_.find(member);
  if (leases == held_.end()) return;
  for (auto& [id, held] : leases->second)
    std::erase_if(held.steps, [work](const auto& step) { return step.second == work; });
  std::erase_if(leases->second, [](const auto& lease) { return lease.second.steps.empty(); });
  if (leases->second.empty()) held_.erase(leases);
}

int64_t LeaseBook::give_back_all(uint32_t member) {
  const auto leases = held_.find(member);
  if (leases == held_.end()) return 0;
  const HeldLeases given = std::move(leases->second);
  held_.erase(leases);
  int64_t parts = 0;
  for (const auto& [id, held] : given) {
    parts += std::ssize(held.steps);
    for (const auto& [step, work] : held.steps) return_unless_copied(step, held.part, work);
  }
  return parts;
}

int64_t LeaseBook::begun_before() const { return std::ranges::max(next_); }

void LeaseBook::drain() { steps_ = begun_before(); }

}  // namespace telar
