#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// The candidate nearest to `word` by edit distance, for "did you mean …?"; empty when none is close enough.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "a, b or c".
std::string one_of(const std::vector<std::string>& candidates);

}  // namespace telar
