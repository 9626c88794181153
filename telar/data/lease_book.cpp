#include "telar/data/lease_book.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "telar/core/error.h"

namespace telar {

namespace {

/// More steps than a training has.
constexpr int64_t kMostWork = int64_t{1} << 40;

}  // namespace

void check_lease(const Lease& lease, int64_t steps, int64_t parts) {
  if (lease.begin < 0 || lease.begin >= lease.end || lease.end > steps || lease.part < 0 ||
      lease.part >= parts || lease.number < 0 || lease.number > kMostWork ||
      (!lease.places.empty() && std::ssize(lease.places) != lease.end - lease.begin + 1))
    throw user_error(
        "the coordinator leases part {} of batches {} to {}, but an epoch has {} batches of {} parts here; all processes must have the same data",
        lease.part, lease.begin, lease.end, steps, parts);
}

LeaseBook::LeaseBook(uint32_t epoch, int64_t first, int64_t steps, int64_t parts, int64_t lease_steps)
    : epoch_(epoch),
      steps_(steps),
      existing_(steps),
      lease_steps_(lease_steps),
      done_before_(first),
      last_lease_((uint64_t{epoch} + 1) << 32),  // so that a late report of another epoch finds no lease
      next_(static_cast<size_t>(std::max<int64_t>(parts, 0)), first) {
  if (first < 0 || first > steps || parts < 1 || lease_steps < 1)
    throw user_error("Steps {} to {} in {} parts, leased {} at a time, are not possible", first, steps, parts,
                     lease_steps);
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
    // The earliest returned step of any part, then the steps of that part that follow it without a gap.
    std::tie(lease.begin, lease.part) = *returned_.begin();
    lease.end = lease.begin;
    while (lease.end - lease.begin < lease_steps_ && returned_.erase({lease.end, lease.part}) > 0)
      ++lease.end;
  } else if (const auto part = fresh_part(preferred, claimed)) {
    int64_t& next = next_[static_cast<size_t>(*part)];
    lease.part = *part;
    lease.begin = next;
    lease.end = next = std::min({steps_, existing_, next + lease_steps_});
  } else {
    return std::nullopt;
  }
  last_lease_ = lease.id;
  Held& held = held_[member][lease.id];
  held.part = lease.part;
  for (int64_t step = lease.begin; step < lease.end; ++step) held.steps.insert(held.steps.end(), step);
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
  if (find(member, lease, step) == nullptr) return false;
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
  returned_.emplace(step, held->part);
  erase(member, lease, step);
}

int64_t LeaseBook::give_back_all(uint32_t member) {
  const auto leases = held_.find(member);
  if (leases == held_.end()) return 0;
  int64_t parts = 0;
  for (const auto& [id, held] : leases->second) {
    parts += static_cast<int64_t>(held.steps.size());
    for (const int64_t step : held.steps) returned_.emplace(step, held.part);
  }
  held_.erase(leases);
  return parts;
}

int64_t LeaseBook::begun_before() const { return std::ranges::max(next_); }

void LeaseBook::drain() { steps_ = begun_before(); }

}  // namespace telar
