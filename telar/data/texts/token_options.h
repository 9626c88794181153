#pragma once

#include <functional>
#include <string>
#include <vector>

#include "telar/data/source.h"

namespace telar {

/// The most tokens of a sample.
inline constexpr double kLongestText = 1 << 20;

/// What the sources of texts have in common: data.tokens, data.most_words and data.words.
std::vector<Option> token_options(const std::string& fallback);
bool takes_words(const Attributes& options);
/// Throws OptionError if data.words is not a vocabulary that a run has kept.
void check_words(const Attributes& options);

/// The vocabulary of a run, or that of the training samples, which the run will keep: `frequent` finds it.
/// Throws Error (user) for test samples without one, and if no process has all training samples.
std::vector<std::string> vocabulary_of(const SourceRequest& request, Split part,
                                       const std::function<std::vector<std::string>()>& frequent);

}  // namespace telar
