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
  int64_t no_utf8 = 0;             ///< words that are none, and unknown
  std::string first_no_utf8;       ///< where the first of them is

  std::vector<int64_t> lengths() const;
  /// `place`: where it is, "reviews.csv, line 3"; or a file that is the text, to whose name a line is added.
  void add(std::string_view text, const std::string& place, bool is_file);
  /// What is to be said of them if there are any. `path`: of the texts.
  std::string no_utf8_note(const std::string& path) const;

 private:
  std::unordered_map<std::string, int32_t> known_;
};
/// Throws Error (user) like plain_text().
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
