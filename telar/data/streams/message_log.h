#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace telar {

struct Message {
  int64_t offset = 0;
  std::string_view value;
  int64_t time = -1;  ///< that the topic stores with it: milliseconds since 1970; negative: none
  std::optional<std::string_view> key = std::nullopt;
  bool null = false;  ///< there is no value: it deletes its key in a compacted topic
};

struct MessageHeader {
  std::string name;
  std::string value;
};

/// A message that is to be written.
struct NewMessage {
  std::string_view value;
  std::optional<std::string_view> key = std::nullopt;
  std::vector<MessageHeader> headers = {};
  bool null = false;  ///< without a value
};

/// The offsets of a partition's messages: from `first` to before `end`.
struct OffsetRange {
  int64_t first = 0;
  int64_t end = 0;
  bool operator==(const OffsetRange&) const = default;
};

/// The messages of a topic, in partitions. In each they are numbered by offsets, which ascend, possibly with
/// gaps. One thread at a time, except for what says otherwise.
class MessageLog {
 public:
  virtual ~MessageLog() = default;

  /// Of the topic.
  virtual const std::string& name() const = 0;
  virtual int partitions() const = 0;
  /// Those that the topic has by now, as far as the brokers were asked, at most once a minute.
  virtual int partitions_now() = 0;

  /// The messages that each partition has now. Throws Error (run) if nobody answers.
  virtual std::vector<OffsetRange> ranges() = 0;

  /// The offset of the first message that the partition has (still). Throws Error (run) if nobody answers.
  virtual int64_t first(int partition) = 0;

  /// Of each partition, the first offset whose message has this time (milliseconds since 1970) or a later
  /// one, as the brokers answer; none if no message has. Throws Error (run) if nobody answers.
  virtual std::vector<std::optional<int64_t>> since(int64_t time) = 0;

  /// The next message of the partition will be the first one from this offset on. To read on needs no seek.
  virtual void seek(int partition, int64_t offset) = 0;

  /// The next message of a partition, valid until the next call for it; none if none arrives in this time.
  /// Throws Error (user) if the offset does not exist (any more), and Error (run) for what will not heal by
  /// itself: the topic was deleted, access is denied.
  virtual std::optional<Message> next(int partition, std::chrono::milliseconds wait) = 0;

  /// The offset from which the next message is awaited: behind the last one, and, once next() has found the
  /// partition's end, behind offsets without a message (a transaction's marker is one).
  virtual int64_t awaited(int partition) const = 0;

  /// Messages that exist from this offset on, as far as is known without asking; none before the first read.
  /// Thread-safe.
  virtual std::optional<int64_t> behind(int partition, int64_t offset) const = 0;

  /// Tells others up to which offsets the messages have been used. Does not wait, and may fail. Thread-safe.
  virtual void tell_used(const std::vector<int64_t>& next) = 0;
  /// What was told last, also by other processes of the same consumer group: an offset for each partition,
  /// none where nothing was. Throws Error (run) if nobody answers.
  virtual std::vector<std::optional<int64_t>> told_used() = 0;

  /// Why no message arrives, as far as is known: "no broker answers: …"; empty: nothing is wrong.
  virtual std::string trouble() const = 0;
};

/// Writes messages to a topic. One thread at a time.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual int partitions() const = 0;
  /// Waits if too many messages are under way; false if a stop was requested meanwhile, and the message was
  /// not taken. Throws Error (run) if an earlier one could not be stored.
  virtual bool publish(int partition, const NewMessage& message) = 0;
  bool publish(int partition, std::string_view message) {
    return publish(partition, NewMessage{.value = message});
  }
  /// Waits until all messages are stored, after a stop was requested at most kStopWait; returns how many are
  /// not. Throws Error (run) if one could not be.
  virtual int64_t flush() = 0;
  /// Why messages are not stored, as far as is known; empty: nothing is wrong. To be asked in the callback
  /// that requests a stop.
  virtual std::string trouble() const = 0;
  static constexpr std::chrono::seconds kStopWait{5};
};

}  // namespace telar
