#include "telar/comm/peers/peer_inbox.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

namespace {

/// So much of a message that nobody has asked for is room made at once; more if it does arrive.
constexpr uint64_t kReserved = uint64_t{256} << 20;

}  // namespace

void PeerInbox::start(MessageKey key, Receive& receive) {
  const std::lock_guard lock(mutex_);
  receive.done = false;
  if (drops(key)) return;
  Queue& queue = queues_[key];
  const auto next = std::ranges::find_if(
      queue.messages, [](const Message& message) { return message.receive == nullptr && !message.dropped; });
  if (next == queue.messages.end()) return queue.waiting.push_back(&receive);
  give(*next, receive);
  finish_front(queue);
}

void PeerInbox::cancel(MessageKey key, Receive& receive) {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(key);
  if (found == queues_.end()) return;
  Queue& queue = found->second;
  std::erase(queue.waiting, &receive);
  for (Message& message : queue.messages) {
    if (message.receive != &receive) continue;
    message.receive = nullptr;
    message.dropped = true;
  }
}

bool PeerInbox::is_waited_for() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(queues_, [](const auto& one) {
    const auto& [key, queue] = one;
    return key.lane != Lane::watch &&
           (!queue.waiting.empty() || std::ranges::any_of(queue.messages, [](const Message& message) {
             return message.receive != nullptr;
           }));
  });
}

void PeerInbox::drop_before(uint16_t generation) {
  const std::lock_guard lock(mutex_);
  oldest_ = generation;
  std::erase_if(queues_, [this](const auto& one) { return drops(one.first); });
}

/// What has arrived of a message goes to a receive.
void PeerInbox::give(Message& message, Receive& receive) {
  if (message.size != receive.bytes.size())
    throw run_error("a message of {} bytes instead of {}", message.size, receive.bytes.size());
  std::ranges::copy(message.kept, receive.bytes.begin());
  message.kept = {};
  message.receive = &receive;
}

void PeerInbox::finish_front(Queue& queue) {
  while (!queue.messages.empty()) {
    const Message& first = queue.messages.front();
    if ((first.receive == nullptr && !first.dropped) || first.arrived < first.size) return;
    if (first.receive != nullptr) first.receive->done = true;
    queue.messages.pop_front();
  }
}

bool PeerInbox::take(const PeerFrame& frame, const PeerBytes& bytes) {
  const std::lock_guard lock(mutex_);
  if (drops(frame.key())) return false;
  Queue& queue = queues_[frame.key()];
  const bool complete = queue.messages.empty() || queue.messages.back().arrived == queue.messages.back().size;
  if (frame.offset == 0 && complete) {
    Message& message = queue.messages.emplace_back();
    message.size = frame.size;
    if (queue.waiting.empty()) message.kept.reserve(std::min<uint64_t>(frame.size, kReserved));
    if (!queue.waiting.empty()) {
      give(message, *queue.waiting.front());
      queue.waiting.pop_front();
    }
  }
  if (queue.messages.empty() || queue.messages.back().size != frame.size ||
      queue.messages.back().arrived != frame.offset)
    throw run_error("parts of a message that do not follow each other");
  Message& message = queue.messages.back();
  for (const std::span<const std::byte> piece : bytes) {
    if (message.receive != nullptr)
      std::ranges::copy(piece, message.receive->bytes.begin() + static_cast<std::ptrdiff_t>(message.arrived));
    else if (!message.dropped)
      message.kept.insert(message.kept.end(), piece.begin(), piece.end());
    message.arrived += piece.size();
  }
  const bool done = message.receive != nullptr && message.arrived == message.size;
  finish_front(queue);
  return done;
}

}  // namespace telar
