#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "telar/data/texts/text_windows.h"

namespace telar {

/// The words of texts as numbers, of which each distinct word has one.
struct NumberedTexts {
  std::vector<std::vector<int32_t>> texts;
  std::vector<std::string> words;  ///< by number

  std::vector<int64_t> lengths() const;
  void add(std::string_view text);

 private:
  std::unordered_map<std::string, int32_t> known_;
};
NumberedTexts numbered_texts(const std::vector<TextFile>& files);

/// kUnknownWord, and the words that are most frequent, at most `most` in all; of equally frequent ones those
/// that are the first by their bytes. `counts`: of each word of `words`.
std::vector<std::string> frequent_words(const std::vector<std::string>& words,
                                        const std::vector<int64_t>& counts, int64_t most);
/// The same of the words in these windows, without the token after each.
std::vector<std::string> frequent_words(const NumberedTexts& texts, const WindowPlaces& places,
                                        const std::vector<int64_t>& windows, int64_t most);

/// Replaces the numbers by the tokens of a vocabulary.
std::vector<std::vector<int32_t>> with_tokens(NumberedTexts texts,
                                              const std::vector<std::string>& vocabulary);

}  // namespace telar
