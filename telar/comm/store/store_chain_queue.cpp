#include "telar/comm/store/store_chain_queue.h"

#include <array>
#include <memory>
#include <utility>

#include "telar/comm/store/store_stream.h"

namespace telar {
namespace {

/// Of copies of blocks that are sent at once.
constexpr size_t kMostQueued = size_t{8} << 20;

/// The payload in place, without a copy.
grpc::Slice view_of(const SharedFrame& frame) {
  using Keeper = std::shared_ptr<const std::byte>;
  auto keeper = std::make_unique<Keeper>(frame.payload);
  return {const_cast<std::byte*>(frame.payload.get()), frame.bytes,
          [](void* held) { std::unique_ptr<Keeper>(static_cast<Keeper*>(held)).reset(); }, keeper.release()};
}

}  // namespace

ChainQueue::ChainQueue(Write write, bool payload_checksums, std::shared_ptr<ChainMemory> memory, Side side)
    : write_(std::move(write)),
      payload_checksums_(payload_checksums),
      memory_(std::move(memory)),
      side_(side),
      entries_(memory_ && side == Side::predecessor) {
  thread_ = std::thread([this] { write_for_ever(); });
}

grpc::ByteBuffer ChainQueue::message_of(const Queued& queued) const {
  const SharedFrame& frame = queued.frame;
  FrameHeader header = frame.header;
  if (!payload_checksums_) header.flags |= kPlainPayload;
  if (side_ == Side::predecessor) header.version = static_cast<int64_t>(queued.place);
  OwnedFrame head(header, {}, 0);
  if (!frame.payload) {
    head.seal();
    return head.message();
  }
  head.seal({frame.payload.get(), frame.bytes});
  const std::array<grpc::Slice, 2> slices{head.slice, view_of(frame)};
  return {slices.data(), slices.size()};
}

void ChainQueue::begin_entries() {
  const std::lock_guard lock(mutex_);
  entries_ = memory_ != nullptr;
}

void ChainQueue::send(SharedFrame frame) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    const uint64_t place = ++places_;
    if (put_entry(frame, place)) return;
    bytes_ += frame.bytes;
    frames_.push_back({.place = place, .frame = std::move(frame)});
  }
  changed_.notify_all();
}

bool ChainQueue::put_entry(const SharedFrame& frame, uint64_t place) {
  if (!entries_) return false;
  ChainEntry entry{.place = place, .header = frame.header};
  if (side_ == Side::predecessor) {
    const std::optional<size_t> shared = memory_->offset_of(frame.payload.get());
    if (!shared) return false;
    entry.header.version = static_cast<int64_t>(*shared);
  } else if (frame.header.kind != FrameKind::held) {
    return false;
  }
  ChainMemory::Ring& ring = side_ == Side::predecessor ? memory_->updates() : memory_->helds();
  if (ring.full()) return false;
  ring.put([&](ChainEntry& next) { next = entry; });
  return true;
}

bool ChainQueue::wait_for_room() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || bytes_ < kMostQueued; });
  return !closed_;
}

void ChainQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ChainQueue::write_for_ever() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closed_ || !frames_.empty(); });
    if (closed_) return;
    const Queued next = std::move(frames_.front());
    frames_.pop_front();
    lock.unlock();
    const bool written = write_(message_of(next));
    lock.lock();
    bytes_ -= next.frame.bytes;
    closed_ |= !written;
    changed_.notify_all();
  }
}

}  // namespace telar
