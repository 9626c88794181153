#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace telar {

/// The message behind the frame that Confluent's serializers write: a 0, and the number of a schema in four
/// bytes, the high one first. Throws Error (user) if it has none, or a number that is not among `ids`.
std::string_view without_frame(std::string_view message, const std::vector<int64_t>& ids);

}  // namespace telar
