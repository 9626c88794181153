#pragma once

#include <string>

namespace telar {

/// Whether a name has the form of a pattern, in which '*' matches any text: "conv*" matches "conv1.weight".
bool matches_pattern(const std::string& pattern, const std::string& name);

}  // namespace telar
