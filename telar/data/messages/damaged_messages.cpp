#include "telar/data/messages/damaged_messages.h"

#include <algorithm>

#include "telar/core/error.h"
#include "telar/data/batch_source.h"

namespace telar {

namespace {

constexpr int64_t kNamedDamaged = 10;
constexpr int64_t kDamagedInRow = 1000;

}  // namespace

std::string_view value_of(const Message& message) {
  if (message.null) throw user_error("the message has no value (null), as those that delete a key");
  return message.value;
}

void DamagedMessages::leave_out(int partition, const Message& message, const std::string& reason, bool counts,
                                bool sends) {
  const std::string damage =
      fmt::format("topic '{}', partition {}, offset {}: {}", topic_, partition, message.offset, reason);
  if (!options_.skip) throw user_error("{}; data.on_error: skip leaves such messages out", damage);
  if (!counts) return;
  if (++in_row_ >= std::max(kDamagedInRow, options_.batch))
    throw user_error(
        "{} messages in a row are damaged; check data.format, data.dtype and data.shape; the last: {}",
        in_row_, damage);
  if (options_.dead_letters && sends) send(partition, message, reason);
  if (!options_.warn || named_ > kNamedDamaged) return;
  options_.warn(++named_ > kNamedDamaged ? "further messages are left out; the summary has their number"
                                         : "left out: " + damage);
}

void DamagedMessages::send(int partition, const Message& message, const std::string& reason) {
  MessageSink& sink = *options_.dead_letters;
  const NewMessage letter{.value = message.value,
                          .headers = {{"telar.topic", topic_},
                                      {"telar.partition", std::to_string(partition)},
                                      {"telar.offset", std::to_string(message.offset)},
                                      {"telar.reason", reason}},
                          .null = message.null};
  if (!sink.publish(partition % sink.partitions(), letter)) throw ReadStopped();
  sent_ = true;
}

void DamagedMessages::store() {
  if (sent_ && options_.dead_letters->flush() > 0) throw ReadStopped();
  sent_ = false;
}

}  // namespace telar
