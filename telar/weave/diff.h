#pragma once

#include <string>

namespace telar::weave {

/// The unified diff (three lines around each change) that makes `after` of `before`, as `patch` reads it; empty when they are equal.
std::string unified_diff(const std::string& file, const std::string& before, const std::string& after);
/// The same with the colours of a terminal.
std::string coloured(const std::string& diff);

}  // namespace telar::weave
