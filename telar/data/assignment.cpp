#include "telar/data/assignment.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "telar/core/error.h"

namespace telar {

namespace {

int64_t sum_of(const std::vector<int64_t>& numbers, size_t count) {
  return std::accumulate(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(count), int64_t{0});
}

/// number × part / all, rounded down; 0 if `all` is 0.
int64_t proportion(int64_t number, int64_t part, int64_t all) {
  if (all == 0) return 0;
  const auto product = static_cast<__uint128_t>(number) * static_cast<__uint128_t>(part);
  return static_cast<int64_t>(product / static_cast<__uint128_t>(all));
}

/// Parts of equal size have different orders; a single part has that of FixedSlice.
std::string name_of_part(int64_t first_id) { return first_id == 0 ? "" : fmt::format("/{}", first_id); }

}  // namespace

EqualBatches::EqualBatches(int64_t size, int64_t global_batch) : size_(size), global_batch_(global_batch) {
  if (size < 1) throw user_error("There are no samples to form batches from");
  if (global_batch < 1)
    throw user_error("A batch of {} samples is not possible; at least 1 is needed", global_batch);
}

int64_t EqualBatches::steps(uint32_t /*epoch*/) const { return (size_ + global_batch_ - 1) / global_batch_; }

int64_t EqualBatches::batch_samples(uint32_t /*epoch*/, int64_t step) const {
  return std::min(global_batch_, size_ - step * global_batch_);
}

std::vector<int64_t> EqualBatches::samples(uint32_t epoch, int64_t step) const {
  if (step < 0 || step >= steps(epoch)) {
    throw run_error("Step {} of epoch {} does not exist; the epoch has {} steps", step, epoch, steps(epoch));
  }
  const int64_t first = step * global_batch_;
  return samples_of(epoch, first, first + batch_samples(epoch, step));
}

FixedSlice::FixedSlice(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, Part part,
                       int64_t together)
    : EqualBatches(size, global_batch), order_(size, seed, shuffle, together), part_(part) {
  if (part.of < 1 || part.begin < 0 || part.begin > part.end || part.end > part.of) {
    throw user_error("A worker cannot have the shares {} to {} of {} of each batch", part.begin, part.end,
                     part.of);
  }
}

std::vector<int64_t> FixedSlice::samples_of(uint32_t epoch, int64_t first, int64_t last) const {
  const int64_t batch = last - first;
  std::vector<int64_t> samples(static_cast<size_t>(part_.last(batch) - part_.first(batch)));
  order_.read(epoch, first + part_.first(batch), samples);
  return samples;
}

SpreadSlice::SpreadSlice(std::vector<int64_t> parts, size_t own, int64_t global_batch, uint64_t seed,
                         bool shuffle)
    : EqualBatches(sum_of(parts, parts.size()), global_batch),
      parts_(std::move(parts)),
      own_(own),
      first_id_(sum_of(parts_, own)),
      order_(parts_[own], seed, shuffle, 1, name_of_part(first_id_)) {}

std::vector<int64_t> SpreadSlice::samples_of(uint32_t epoch, int64_t first, int64_t last) const {
  const int64_t begin = own_before(first);
  std::vector<int64_t> samples(static_cast<size_t>(own_before(last) - begin));
  order_.read(epoch, begin, samples);
  for (int64_t& sample : samples) sample += first_id_;
  return samples;
}

/// The own samples among the first `position` ones of an epoch. The first part has its proportion of these,
/// rounded down; what is left is divided among the other parts in the same way. So the numbers of the parts
/// add up to `position`, none becomes smaller as it grows, and at the end each is the size of its part.
int64_t SpreadSlice::own_before(int64_t position) const {
  int64_t samples = sum_of(parts_, parts_.size());  // of this part and those after it
  for (size_t part = 0; part < own_; ++part) {
    position -= proportion(position, parts_[part], samples);
    samples -= parts_[part];
  }
  return proportion(position, parts_[own_], samples);
}

LeasedParts::LeasedParts(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, int64_t parts,
                         int64_t together) {
  for (int64_t part = 0; part < parts; ++part) {
    parts_.push_back(std::make_unique<FixedSlice>(size, global_batch, seed, shuffle,
                                                  Part{part, part + 1, parts}, together));
  }
}

void LeasedParts::clear() {
  const std::scoped_lock lock(mutex_);
  entries_.clear();
}

void LeasedParts::add(int64_t step, int64_t part) {
  const std::scoped_lock lock(mutex_);
  entries_.emplace_back(step, part);
}

int64_t LeasedParts::steps(uint32_t /*epoch*/) const {
  const std::scoped_lock lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

std::pair<int64_t, int64_t> LeasedParts::entry(int64_t index) const {
  const std::scoped_lock lock(mutex_);
  return entries_.at(static_cast<size_t>(index));
}

int64_t LeasedParts::batch_samples(uint32_t epoch, int64_t step) const {
  return parts_.front()->batch_samples(epoch, entry(step).first);
}

std::vector<int64_t> LeasedParts::samples(uint32_t epoch, int64_t step) const {
  const auto [batch, part] = entry(step);
  return parts_.at(static_cast<size_t>(part))->samples(epoch, batch);
}

}  // namespace telar
