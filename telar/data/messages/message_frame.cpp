#include "telar/data/messages/message_frame.h"

#include <algorithm>

#include "telar/core/error.h"

namespace telar {

std::string_view without_frame(std::string_view message, const std::vector<int64_t>& ids) {
  constexpr size_t kFrameBytes = 5;
  if (message.size() < kFrameBytes || message.front() != 0)
    throw user_error(
        "the message does not begin with a 0 and the number of a schema, as data.schema_ids says");
  int64_t id = 0;
  for (const char byte : message.substr(1, kFrameBytes - 1)) id = id * 256 + static_cast<uint8_t>(byte);
  if (std::ranges::find(ids, id) == ids.end())
    throw user_error("the message was written with schema {}, which is not in data.schema_ids", id);
  return message.substr(kFrameBytes);
}

}  // namespace telar
