#include "telar/comm/peers/peer_stream.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "telar/comm/printable.h"
#include "telar/core/error.h"

namespace telar {

namespace {

using namespace std::chrono_literals;

/// Messages up to this size are copied, and sent by the caller without waking the sending thread.
constexpr size_t kSmallMessage = size_t{64} << 10;

}  // namespace

PeerStream::PeerStream(std::string name, News news)
    : name_(std::move(name)), news_(std::move(news)), thread_([this] { write_for_ever(); }) {}

PeerStream::~PeerStream() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

// ---- sending ----

void PeerStream::send(MessageKey key, std::span<const std::byte> bytes, std::atomic<size_t>& in_transit) {
  std::unique_lock lock(mutex_);
  if (ended_) return;
  size_t begin = 0;
  do {
    const std::span<const std::byte> part = bytes.subspan(begin, std::min(kPeerPart, bytes.size() - begin));
    ++in_transit;
    parts_.push_back({.frame = {.kind = PeerFrame::Kind::part,
                                .lane = key.lane,
                                .generation = key.generation,
                                .tag = key.tag,
                                .size = bytes.size(),
                                .offset = begin},
                      .bytes = part,
                      .in_transit = &in_transit});
    begin += part.size();
  } while (begin < bytes.size());
  // Words of the watch never block who says them: a process that is stopped must not silence the others.
  if (key.lane != Lane::watch && parts_.size() == 1 && !writing_ && writer_ != nullptr &&
      bytes.size() <= kSmallMessage)
    write_next(lock);
  else
    changed_.notify_all();
}

void PeerStream::write_next(std::unique_lock<std::mutex>& lock) {
  Part part = std::move(parts_.front());
  parts_.pop_front();
  writing_ = true;
  Writer* const writer = writer_;
  lock.unlock();
  const std::span<const std::byte> bytes =
      part.in_transit == nullptr ? std::as_bytes(std::span(part.text)) : part.bytes;
  seal(part.frame, bytes);
  std::vector<grpc::Slice> slices{grpc::Slice(&part.frame, sizeof part.frame)};
  std::atomic<size_t>* held = nullptr;  // by gRPC, until it has sent the bytes
  if (bytes.size() <= kSmallMessage) {
    if (!bytes.empty()) slices.emplace_back(bytes.data(), bytes.size());
  } else {
    held = part.in_transit;
    // It cannot call back this object, which may be gone by then; waiting threads look every millisecond.
    slices.emplace_back(
        const_cast<std::byte*>(bytes.data()), bytes.size(),
        [](void* in_transit) { --*static_cast<std::atomic<size_t>*>(in_transit); }, held);
  }
  bool written = false;
  {
    const grpc::ByteBuffer message(slices.data(), slices.size());
    slices.clear();
    written = writer->Write(message, grpc::WriteOptions());
  }
  if (held == nullptr && part.in_transit != nullptr) --*part.in_transit;
  lock.lock();
  writing_ = false;
  if (!written) {
    writer_ = nullptr;  // the receiving thread finds out why
    if (cancel_) cancel_();
  }
  changed_.notify_all();
  news_(false);
}

void PeerStream::write_for_ever() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return over_ || (writer_ != nullptr && !writing_ && !parts_.empty()); });
    if (over_) return;
    write_next(lock);
  }
}

void PeerStream::drop_parts(const std::atomic<size_t>* in_transit) {
  std::erase_if(parts_, [in_transit](const Part& part) {
    if (in_transit != nullptr && part.in_transit != in_transit) return false;
    if (part.in_transit != nullptr) --*part.in_transit;
    return true;
  });
}

void PeerStream::recall(const std::atomic<size_t>& in_transit) {
  // A peer that is alive takes what it is sent, but a large message may wait for a slow network.
  constexpr auto kUntilDropped = 200ms;
  constexpr auto kUntilEnded = 2s;
  const auto begin = std::chrono::steady_clock::now();
  for (bool dropped = false; in_transit != 0; std::this_thread::sleep_for(1ms)) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited < kUntilDropped || (dropped && waited < kUntilEnded)) continue;
    const std::lock_guard lock(mutex_);
    dropped ? cancel() : drop_parts(&in_transit);
    dropped = true;
  }
}

void PeerStream::say_last(PeerFrame::Kind last, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (ended_ || last_said_) return;
  last_said_ = true;
  parts_.push_back({.frame = {.kind = last, .size = why.size()}, .bytes = {}, .text = why});
  changed_.notify_all();
}

void PeerStream::close(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (writer_ == nullptr || changed_.wait_for(lock, patience, [&] { return ended_; })) return;
  cancel();
}

void PeerStream::cancel() {
  if (cancel_) std::exchange(cancel_, nullptr)();
  changed_.notify_all();  // who waits for the end of a stream that has said its last words reads no more
}

// ---- receiving ----

bool PeerStream::wait_until_connected(std::chrono::steady_clock::time_point end) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, end, [&] { return writer_ != nullptr || ended_; });
  return writer_ != nullptr;
}

std::string PeerStream::lost(std::chrono::milliseconds farewell) const {
  const std::lock_guard lock(mutex_);
  return left_ && std::chrono::steady_clock::now() < *left_ + farewell ? "" : lost_;
}

bool PeerStream::has_left() const {
  const std::lock_guard lock(mutex_);
  return last_words_;
}

void PeerStream::lose(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_.empty() && !last_heard_) lost_ = why;
    ended_ = true;
    drop_parts(nullptr);
    news_(!lost_.empty());
  }
  changed_.notify_all();
}

void PeerStream::serve(Reader& reader, Writer& writer, std::function<void()> cancel) {
  {
    const std::lock_guard lock(mutex_);
    writer_ = &writer;
    cancel_ = std::move(cancel);
  }
  changed_.notify_all();
  std::string why = "it has ended, or its host cannot be reached";
  try {
    receive(reader);
  } catch (const Error& error) {
    why = fmt::format("it sent {}", error.what());
  }
  {
    std::unique_lock lock(mutex_);
    if (!last_heard_ && cancel_) cancel_();  // ends a write, too
    changed_.wait(lock, [&] { return !writing_; });
    writer_ = nullptr;
    cancel_ = nullptr;
  }
  const std::string last = last_message();
  lose(fmt::format(
      "the process of {} is lost: {}{}{}; the last checkpoint is whole; continue from it with --resume, with any number of processes",
      name_, why, last.empty() ? "" : "; ", last));
}

std::string PeerStream::last_message() const {
  const Lane lane = last_lane_;
  if (lane == Lane::watch) return {};
  const std::chrono::duration<double> before = std::chrono::steady_clock::now() - last_time_.load();
  return fmt::format("its last message, {:.1f} s before, was of {}", before.count(),
                     lane == Lane::stages    ? "activations or gradients between stages"
                     : lane == Lane::buckets ? "a sum of gradients or parameters"
                     : lane == Lane::all     ? "what all processes tell each other"
                                             : "sums, such as those of metrics, within a group");
}

void PeerStream::receive(Reader& reader) {
  grpc::ByteBuffer message;
  while (reader.Read(&message)) {
    std::vector<grpc::Slice> slices;
    if (!message.Dump(&slices).ok()) throw run_error("a message that cannot be read");
    PeerFrame frame;
    if (message.Length() < sizeof frame || message.Length() > sizeof frame + kPeerPart)
      throw run_error("a message that no process of telar sends");
    size_t of_head = 0;
    PeerBytes bytes;
    for (const grpc::Slice& slice : slices) {
      const auto piece = std::as_bytes(std::span(slice.begin(), slice.size()));
      const size_t head = std::min(sizeof frame - of_head, piece.size());
      std::memcpy(reinterpret_cast<std::byte*>(&frame) + of_head, piece.data(), head);
      of_head += head;
      if (head < piece.size()) bytes.push_back(piece.subspan(head));
    }
    check_peer_frame(frame, bytes);
    switch (frame.kind) {
      case PeerFrame::Kind::welcome: throw run_error("a second welcome");
      case PeerFrame::Kind::part:
        if (frame.lane != Lane::watch) {
          last_time_ = std::chrono::steady_clock::now();
          last_lane_ = frame.lane;
        }
        if (inbox_.take(frame, bytes)) news_(false);
        break;
      case PeerFrame::Kind::failed: {
        std::string why;
        for (const auto piece : bytes) why.append(reinterpret_cast<const char*>(piece.data()), piece.size());
        const std::lock_guard lock(mutex_);
        last_words_ = true;
        lost_ = fmt::format("the process of {} failed: {}", name_, printable(why, 2000));
        return;
      }
      case PeerFrame::Kind::left: {
        const std::lock_guard lock(mutex_);
        last_words_ = true;
        lost_ = fmt::format("the process of {} has left the group", name_);
        left_ = std::chrono::steady_clock::now();
        return;
      }
      case PeerFrame::Kind::goodbye: {
        if (inbox_.is_waited_for()) throw run_error("a goodbye while a message of it is waited for");
        std::unique_lock lock(mutex_);
        last_words_ = last_heard_ = true;
        changed_.wait(lock, [&] { return all_said() || writer_ == nullptr || !cancel_ || over_; });
        return;
      }
    }
  }
}

}  // namespace telar
