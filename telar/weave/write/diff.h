#pragma once

#include <string>

namespace telar::weave {

/// The unified diff (three lines of context) that turns `before` into `after`, in the format of `patch`;
/// empty if they are equal.
std::string unified_diff(const std::string& file, const std::string& before, const std::string& after);
/// The same diff with terminal colours.
std::string coloured(const std::string& diff);

}  // namespace telar::weave
