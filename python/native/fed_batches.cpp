#include "python/native/fed_batches.h"

#include <cstring>

namespace telar::python {

FedBatch Feed::take(int64_t step) {
  const std::lock_guard lock(mutex_);
  for (; read_ <= step; ++read_) held_[read_] = next_();
  return held_.at(step);
}

void Feed::forget(int64_t step) {
  FedBatch last;  // its arrays are given back without the lock, which Python's lock may wait for
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(step);
  if (found == held_.end()) return;
  last = std::move(found->second);
  held_.erase(found);
}

Position FedBatches::begin(uint32_t /*pass*/) const { return position_of_entry(0); }

std::optional<Position> FedBatches::find(uint32_t /*pass*/, int64_t batches) const {
  return position_of_entry(static_cast<size_t>(batches));
}

bool FedBatches::at_end(const Position& position) const { return entry_of(position) >= entries_.size(); }

void FedBatches::read(const Position& position, Batch& batch, const std::stop_token& /*stop*/) const {
  const size_t number = entry_of(position);
  const Entry& entry = entries_.at(number);
  const FedBatch fed = feed_.take(entry.step);
  const int64_t first = fed.size * entry.part / parts_;
  const int64_t end = fed.size * (entry.part + 1) / parts_;
  batch.resize(end - first);
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const auto bytes = static_cast<int64_t>(tensors_[t].sample_bytes());
    if (end > first)
      std::memcpy(batch.data(t), fed.data[t] + first * bytes, static_cast<size_t>((end - first) * bytes));
  }
  for (int64_t i = first; i < end; ++i) batch.ids()[static_cast<size_t>(i - first)] = fed.first_sample + i;
  batch.epoch = entry.epoch;
  batch.all_samples = fed.size;
  batch.after = position_of_entry(number + 1);
}

}  // namespace telar::python
