#include "telar/data/texts/words.h"

#include <algorithm>

#include "telar/core/utf8.h"

namespace telar {

namespace {

bool is_of_word(char c) {
  const auto byte = static_cast<uint8_t>(c);
  return byte >= 0x80 || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

/// The bytes of the word that begins here.
size_t word_length(std::string_view text) {
  size_t length = 0;
  while (length < text.size()) {
    const bool between =
        text[length] == '\'' && length > 0 && length + 1 < text.size() && is_of_word(text[length + 1]);
    if (!is_of_word(text[length]) && !between) break;
    ++length;
  }
  return length;
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    size_t length = word_length(text);
    const bool separates = text[0] != '\n' && (static_cast<uint8_t>(text[0]) <= ' ' || text[0] == 0x7F);
    if (length > 0) {
      const std::string_view word = text.substr(0, length);
      words.push_back(is_utf8(word) ? word : kUnknownWord);
    } else {
      length = 1;
      if (!separates) words.push_back(text.substr(0, 1));
    }
    text.remove_prefix(length);
  }
  return words;
}

Vocabulary::Vocabulary(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) tokens_.emplace(words[i], static_cast<int32_t>(i));
}

int32_t Vocabulary::token_of(std::string_view word) const {
  const auto found = tokens_.find(word);
  return found == tokens_.end() ? 0 : found->second;
}

void append_word(std::string& text, std::string_view word) {
  constexpr std::string_view kClosing = ".,;:!?)]}\n";
  constexpr std::string_view kOpening = "([{ \n";
  const bool joined = text.empty() || kOpening.find(text.back()) != std::string_view::npos ||
                      (word.size() == 1 && kClosing.find(word[0]) != std::string_view::npos);
  if (!joined) text += ' ';
  text += word;
}

}  // namespace telar
