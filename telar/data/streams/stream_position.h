#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "telar/data/batch_source.h"
#include "telar/data/streams/message_log.h"

namespace telar {

/// What shows whether the message at an offset is still the same one.
struct MessageMark {
  int64_t time = -1;  ///< Message::time
  int64_t bytes = 0;
  uint64_t checksum = 0;  ///< of its value and key; 0: not known, of runs from before it was kept
  bool operator==(const MessageMark&) const = default;
};

/// A place between two batches of a topic.
struct StreamPosition {
  uint32_t pass = 0;
  int64_t messages = 0;       ///< of the pass, before it
  int64_t left_out = 0;       ///< of these, those that are damaged
  int turn = 0;               ///< the partition of the message that follows
  std::vector<int64_t> next;  ///< of each partition, the offset of the first message after it
  /// Of each partition, the message at the offset before `next`, if it is known; empty: of none. By these a
  /// topic that was deleted and created again is recognised.
  std::vector<std::optional<MessageMark>> last;
  bool operator==(const StreamPosition&) const = default;
};

/// What is kept of a message.
MessageMark mark_of(const Message& message);

/// Whether both can be of one message.
bool agree(const MessageMark& a, const MessageMark& b);

/// The position as bytes that are ordered as positions of one pass are, with the topic's name.
Position to_position(const StreamPosition& place, const std::string& topic);

/// `starts`: where the partitions that are read begin. If the position is of a time when there were fewer, it
/// is at the starts of the others. Throws Error (user) for bytes that are no position of a topic of this
/// name, or of one with more partitions.
StreamPosition stream_position(const Position& position, const std::string& topic,
                               const std::vector<int64_t>& starts);

}  // namespace telar
