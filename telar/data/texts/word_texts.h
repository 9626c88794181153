#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "telar/data/texts/text_windows.h"

namespace telar {

/// The words of texts as numbers, of which each distinct word has one.
struct NumberedTexts {
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::string> words;  ///< by number

  std::vector<int64_t> lengths() const;
};
NumberedTexts numbered_texts(const std::vector<TextFile>& files);

/// kUnknownWord, and the words that are most frequent in these windows, without the token after each: at most
/// `most` in all, and of equally frequent ones those that are the first by their bytes.
std::vector<std::string> frequent_words(const NumberedTexts& texts, const WindowPlaces& places,
                                        const std::vector<int64_t>& windows, int64_t most);

/// Replaces the numbers by the tokens of a vocabulary.
std::vector<std::vector<int32_t>> with_tokens(NumberedTexts texts,
                                              const std::vector<std::string>& vocabulary);

}  // namespace telar
