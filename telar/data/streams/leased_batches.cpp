#include "telar/data/streams/leased_batches.h"

#include <fmt/format.h>

#include <charconv>

#include "telar/core/error.h"

namespace telar {

/// With as many digits in all.
Position position_of_entry(size_t entry) { return {fmt::format("{:020}", entry)}; }

size_t entry_of(const Position& position) {
  size_t entry = 0;
  const std::string& bytes = position.bytes;
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), entry);
  if (error != std::errc() || end != bytes.data() + bytes.size())
    throw user_error("the position is not one of leased batches");
  return entry;
}

void LeasedStream::clear() {
  const std::scoped_lock lock(mutex_);
  entries_.clear();
  forgotten_ = 0;
}

void LeasedStream::add(const Lease& lease, int64_t step) {
  if (lease.places.empty())
    throw user_error("the lease of batches {} to {} does not say where they are in the stream", lease.begin,
                     lease.end);
  const auto number = static_cast<size_t>(step - lease.begin);
  const std::scoped_lock lock(mutex_);
  entries_.push_back({lease.epoch, {lease.places.at(number)}, {lease.places.at(number + 1)}, lease.part});
}

Position LeasedStream::begin(uint32_t /*pass*/) const { return position_of_entry(0); }

std::optional<Position> LeasedStream::find(uint32_t /*pass*/, int64_t batches) const {
  return position_of_entry(static_cast<size_t>(batches));
}

bool LeasedStream::at_end(const Position& position) const {
  const std::scoped_lock lock(mutex_);
  return entry_of(position) >= forgotten_ + entries_.size();
}

void LeasedStream::read(const Position& position, Batch& batch, const std::stop_token& stop) const {
  const size_t number = entry_of(position);
  Entry entry;
  {
    const std::scoped_lock lock(mutex_);
    for (; forgotten_ < number && !entries_.empty(); ++forgotten_) entries_.pop_front();
    entry = entries_.at(number - forgotten_);
  }
  stream_->read_part(entry.at, entry.end, {entry.part, entry.part + 1, of_}, batch, stop);
  batch.epoch = entry.epoch;
  batch.after = position_of_entry(number + 1);
}

}  // namespace telar
