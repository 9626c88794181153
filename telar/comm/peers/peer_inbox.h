#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "telar/comm/peers/peer_frame.h"

namespace telar {

/// What one peer sends: each message meets the receive that was started for it, whichever comes first.
/// Messages that come before are kept.
class PeerInbox {
 public:
  /// A receive, which must outlive its stay in the inbox.
  struct Receive {
    std::span<std::byte> bytes;
    std::atomic<bool> done{true};
  };

  void start(MessageKey key, Receive& receive);
  /// Takes back a receive that is not done.
  void cancel(MessageKey key, Receive& receive);
  /// Whether a receive is not done, but for those of the watch, which has one until it ends.
  bool is_waited_for() const;
  /// A part of a message, already checked. Returns whether a receive is done. Throws Error (run) if parts do
  /// not follow each other, or a message has another size than was expected.
  bool take(const PeerFrame& frame, const PeerBytes& bytes);
  /// Drops what was and will be sent in earlier generations; nobody is given it any more.
  void drop_before(uint16_t generation);

 private:
  struct Message {
    uint64_t size = 0;
    uint64_t arrived = 0;
    std::vector<std::byte> kept;  ///< if nobody has asked for it yet
    Receive* receive = nullptr;
    bool dropped = false;  ///< the receive was taken back
  };
  /// The messages of a key, in order: those that have arrived or begun, then receives that wait.
  struct Queue {
    std::deque<Message> messages;
    std::deque<Receive*> waiting;
  };

  bool drops(const MessageKey& key) const { return key.generation != 0 && key.generation < oldest_; }
  static void give(Message& message, Receive& receive);
  static void finish_front(Queue& queue);

  mutable std::mutex mutex_;
  std::map<MessageKey, Queue> queues_;
  uint16_t oldest_ = 0;  ///< generation that is not dropped
};

}  // namespace telar
