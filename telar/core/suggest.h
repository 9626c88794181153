#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace telar {

/// The candidate that was probably meant by `word`, for "did you mean …?"; empty when none is close enough. A
/// typing error counts more than a common part ("batch_size", "batch"), and that more than the edit distance.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "a, b or c".
std::string one_of(const std::vector<std::string>& candidates);

}  // namespace telar
