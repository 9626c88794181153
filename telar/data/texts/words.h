#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace telar {

/// The word for all that a vocabulary does not have. No text has it as a word.
inline constexpr std::string_view kUnknownWord = "<unknown>";

/// The words of a text: letters, digits, `_`, an apostrophe between two of them, and all characters beyond
/// ASCII; any other character is a word of its own, also the end of a line ("\n"). Other white space, and
/// control characters, only separate. Bytes that are no UTF-8 make their word unknown.
std::vector<std::string_view> words_of(std::string_view text);

/// Numbers words, unknown ones as 0.
class Vocabulary {
 public:
  /// `words`: by token; the first is kUnknownWord.
  explicit Vocabulary(const std::vector<std::string>& words);
  int32_t token_of(std::string_view word) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> tokens_;
};

/// Adds a word to a text, after a space where one belongs.
void append_word(std::string& text, std::string_view word);

}  // namespace telar
