#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "telar/data/source.h"
#include "telar/data/texts/tokenizer.h"

namespace telar {

/// The most tokens of a sample.
inline constexpr double kLongestText = 1 << 20;

/// The option whose file a run keeps, and its name there.
inline const std::map<std::string, std::string> kTokenizerFile = {{"tokenizer", "tokenizer.json"}};

/// What the sources of texts have in common: data.tokens, and what it needs.
std::vector<Option> token_options(const std::string& fallback);
bool takes_words(const Attributes& options);
bool takes_tokenizer(const Attributes& options);
/// "bytes", "words" or "tokens".
std::string token_unit(const Attributes& options);
/// The tokens of the vocabulary: 256 bytes, words, or those of a tokenizer; none: it is not known yet.
std::optional<int64_t> vocabulary_size(const Attributes& options);
/// Throws OptionError if data.words is not a vocabulary that a run has kept, or a tokenizer is named but not
/// used.
void check_tokens(const Attributes& options);
/// Throws Error (user) if the file is not that of the run.
Tokenizer tokenizer_of(const Attributes& options);
/// The tokens of the tokenizer of `options`, and what that decides. Throws Error (user) like encoded() and
/// tokenizer_of().
EncodedTexts encoded_as(const Attributes& options, const EachText& texts, Attributes& decided);

/// The vocabulary of a run, or that of the training samples, which the run will keep: `frequent` finds it.
/// Throws Error (user) for test samples without one, and if no process has all training samples.
std::vector<std::string> vocabulary_of(const SourceRequest& request, Split part,
                                       const std::function<std::vector<std::string>()>& frequent);

}  // namespace telar
