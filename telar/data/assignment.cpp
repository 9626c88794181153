#include "telar/data/assignment.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/data/permutation.h"

namespace telar {

FixedSlice::FixedSlice(int64_t size, int64_t global_batch, uint64_t seed, bool shuffle, Part part)
    : size_(size), global_batch_(global_batch), seed_(seed), shuffle_(shuffle), part_(part) {
  if (size < 1) throw user_error("There are no samples to make batches of.");
  if (global_batch < 1)
    throw user_error("A batch of {} samples is not possible; at least 1 is needed.", global_batch);
  if (part.of < 1 || part.begin < 0 || part.begin > part.end || part.end > part.of) {
    throw user_error("A worker cannot have the shares {} to {} of {} of each batch.", part.begin, part.end,
                     part.of);
  }
}

int64_t FixedSlice::steps(uint32_t /*epoch*/) const { return (size_ + global_batch_ - 1) / global_batch_; }

int64_t FixedSlice::batch_samples(uint32_t /*epoch*/, int64_t step) const {
  return std::min(global_batch_, size_ - step * global_batch_);
}

std::vector<uint32_t> FixedSlice::samples(uint32_t epoch, int64_t step) const {
  if (step < 0 || step >= steps(epoch)) {
    throw run_error("Step {} of epoch {} was asked for, which has {} steps.", step, epoch, steps(epoch));
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
        shuffle_ ? permutation(size_, seed_, fmt::format("shuffle/{}", epoch)) : in_order(size_));
    ordered_epoch_ = epoch;
  }
  return order_;
}

}  // namespace telar
