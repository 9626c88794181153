#include "telar/data/lease_book.h"

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

std::optional<int64_t> LeaseBook::fresh_part(int64_t preferred, const Claims& claimed) const {
  const auto parts = static_cast<int64_t>(next_.size());
  const int64_t end = std::min(steps_, existing_);
  if (preferred >= 0 && preferred < parts && next_[static_cast<size_t>(preferred)] < end) return preferred;
  std::optional<int64_t> best;
  for (int64_t part = 0; part < parts; ++part) {
    const auto at = static_cast<size_t>(part);
    if (next_[at] >= end || (at < claimed.size() && claimed[at])) continue;
    if (!best || next_[at] < next_[static_cast<size_t>(*best)]) best = part;
  }
  return best;
}

bool LeaseBook::available(int64_t preferred, const Claims& claimed) const {
  return !returned_.empty() || fresh_part(preferred, claimed).has_value();
}

std::optional<Lease> LeaseBook::take(uint32_t member, int64_t preferred, const Claims& claimed) {
  Lease lease{.id = last_lease_ + 1, .epoch = epoch_};
  if (!returned_.empty()) {
    // The earliest returned step of any part, then the steps of that part that follow it without a gap:
    // enough of them, and whole pieces of work.
    std::tie(lease.begin, lease.part) = returned_.begin()->first;
    lease.end = lease.begin;
    for (auto next = returned_.begin(); next != returned_.end() && (std::ssize(lease.works) < sizes_.lease ||
                                                                    lease.works.back() == next->second);
         next = returned_.find({++lease.end, lease.part})) {
      lease.works.push_back(next->second);
      returned_.erase(next);
    }
  } else if (const auto part = fresh_part(preferred, claimed)) {
    int64_t& next = next_[static_cast<size_t>(*part)];
    lease.part = *part;
    lease.begin = next;
    lease.end = next = std::min({steps_, existing_, next + sizes_.lease});
    for (int64_t step = 0; step < lease.end - lease.begin; ++step)
      lease.works.push_back(step % sizes_.work == 0 ? ++works_ : works_);
  } else {
    return std::nullopt;
  }
  last_lease_ = lease.id;
  Held& held = held_[member][lease.id];
  held.part = lease.part;
  for (int64_t step = lease.begin; step < lease.end; ++step)
    held.steps.emplace_hint(held.steps.end(), step, lease.works[static_cast<size_t>(step - lease.begin)]);
  return lease;
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
  erase(member, lease, step);
  ++done_parts_[step];
  const auto parts = static_cast<int64_t>(next_.size());
  for (auto first = done_parts_.begin();
       first != done_parts_.end() && first->first == done_before_ && first->second == parts;
       first = done_parts_.erase(first))
    ++done_before_;
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
    returned_.emplace(std::pair(other, part), work);
    erase(member, lease, other);
  }
}

int64_t LeaseBook::give_back_all(uint32_t member) {
  const auto leases = held_.find(member);
  if (leases == held_.end()) return 0;
  int64_t parts = 0;
  for (const auto& [id, held] : leases->second) {
    parts += static_cast<int64_t>(held.steps.size());
    for (const auto& [step, work] : held.steps) returned_.emplace(std::pair(step, held.part), work);
  }
  held_.erase(leases);
  return parts;
}

int64_t LeaseBook::begun_before() const { return std::ranges::max(next_); }

void LeaseBook::drain() { steps_ = begun_before(); }

}  // namespace telar
