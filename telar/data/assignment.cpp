#include "telar/data/assignment.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/data/permutation.h"

namespace telar {

namespace {

/// The samples in pieces of `together`; the order of the pieces depends only on seed and name.
std::vector<uint32_t> permuted_pieces(int64_t size, int64_t together, uint64_t seed, std::string_view name) {
  if (together == 1) return permutation(size, seed, name);
  std::vector<uint32_t> order;
  order.reserve(static_cast<size_t>(size));
  const auto piece = static_cast<uint32_t>(together);
  for (const uint32_t which : permutation(size / together, seed, name))
    for (uint32_t i = 0; i < piece; ++i) order.push_back(which * piece + i);
  while (order.size() < static_cast<size_t>(size)) order.push_back(static_cast<uint32_t>(order.size()));
  return order;
}

}  // namespace

FixedSlice::FixedSlice(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, Part part,
                       int64_t together)
    : size_(size),
      global_batch_(global_batch),
      seed_(seed),
      shuffle_(shuffle),
      part_(part),
      together_(together) {
  if (size < 1) throw user_error("There are no samples to form batches from");
  if (global_batch < 1)
    throw user_error("A batch of {} samples is not possible; at least 1 is needed", global_batch);
  if (together < 1) throw user_error("Pieces of {} samples are not possible; at least 1 is needed", together);
  if (part.of < 1 || part.begin < 0 || part.begin > part.end || part.end > part.of) {
    throw user_error("A worker cannot have the shares {} to {} of {} of each batch", part.begin, part.end,
                     part.of);
  }
}

int64_t FixedSlice::steps(uint32_t /*epoch*/) const { return (size_ + global_batch_ - 1) / global_batch_; }

int64_t FixedSlice::batch_samples(uint32_t /*epoch*/, int64_t step) const {
  return std::min(global_batch_, size_ - step * global_batch_);
}

std::vector<uint32_t> FixedSlice::samples(uint32_t epoch, int64_t step) const {
  if (step < 0 || step >= steps(epoch)) {
    throw run_error("Step {} of epoch {} does not exist; the epoch has {} steps", step, epoch, steps(epoch));
  }
  const int64_t begin = step * global_batch_;
  const int64_t batch = batch_samples(epoch, step);
  const Order all = order(epoch);
  return {all->begin() + begin + part_.first(batch), all->begin() + begin + part_.last(batch)};
}

FixedSlice::Order FixedSlice::order(uint32_t epoch) const {
  const std::scoped_lock lock(mutex_);
  if (!order_ || (shuffle_ && ordered_epoch_ != epoch)) {
    order_ = std::make_shared<const std::vector<uint32_t>>(
        shuffle_ ? permuted_pieces(size_, together_, seed_, fmt::format("shuffle/{}", epoch))
                 : in_order(size_));
    ordered_epoch_ = epoch;
  }
  return order_;
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

std::vector<uint32_t> LeasedParts::samples(uint32_t epoch, int64_t step) const {
  const auto [batch, part] = entry(step);
  return parts_.at(static_cast<size_t>(part))->samples(epoch, batch);
}

}  // namespace telar
