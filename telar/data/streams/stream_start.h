#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "telar/data/streams/message_log.h"

namespace telar {

/// Milliseconds since 1970 of a time in ISO 8601, as 2026-11-24T18:00Z or 2026-11-24T19:00:00.500+01:00, or
/// given as this number. Throws Error (user) for another text, and a time without its zone.
int64_t time_from(std::string_view text);

/// Of each partition, the offset of its first message of this time (milliseconds since 1970) or a later one;
/// of a partition that has none, the end of `ranges`, which the log had before. Throws Error (user) if no
/// partition has one, and if the brokers' answer is wrong, because they do not know the offsets of times.
/// `described`: the time, for messages.
std::vector<int64_t> offsets_since(MessageLog& log, int64_t time, std::string_view described,
                                   const std::vector<OffsetRange>& ranges);

}  // namespace telar
