#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "telar/data/streams/message_log.h"

namespace telar {

/// The value of a message. Throws Error (user) if it has none: an empty value can be a sample (in protobuf,
/// of defaults), a missing one cannot.
std::string_view value_of(const Message& message);

struct DamageOptions {
  bool skip = false;  ///< damaged messages are left out; otherwise they are an error
  int64_t batch = 1;  ///< so many in a row, and at least 1,000, are always an error: the format is wrong
  /// Where they are written, with headers that say where they come from and what is wrong; null: nowhere.
  std::shared_ptr<MessageSink> dead_letters = {};
  std::function<void(const std::string&)> warn = {};  ///< names the first ones; may be empty
};

/// What becomes of the messages of a topic that are no samples. One thread at a time.
class DamagedMessages {
 public:
  DamagedMessages(std::string topic, DamageOptions options)
      : topic_(std::move(topic)), options_(std::move(options)) {}

  /// A message was a sample.
  void sample() { in_row_ = 0; }

  /// A message was none. `counts`: it was not read before; `sends`: it belongs into the other topic. Throws
  /// Error (user) if it is an error, and ReadStopped if the other topic does not take it before a stop.
  void leave_out(int partition, const Message& message, const std::string& reason, bool counts, bool sends);

  /// Waits until those in the other topic are stored. Throws ReadStopped if a stop comes first.
  void store();

 private:
  void send(int partition, const Message& message, const std::string& reason);

  std::string topic_;
  DamageOptions options_;
  int64_t in_row_ = 0;  ///< the last messages, up to the newest one
  int64_t named_ = 0;   ///< in warnings
  bool sent_ = false;   ///< some are under way
};

}  // namespace telar
