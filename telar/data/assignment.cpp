#include "telar/data/assignment.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

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
