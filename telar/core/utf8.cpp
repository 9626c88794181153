#include "telar/core/utf8.h"

#include <algorithm>
#include <cstdint>

namespace telar {

namespace {

uint8_t byte_at(std::string_view text, size_t place) { return static_cast<uint8_t>(text[place]); }

/// What the second byte may be after the first, besides 0x80 … 0xBF.
bool second_fits(uint8_t first, uint8_t second) {
  return first == 0xE0   ? second >= 0xA0
         : first == 0xED ? second < 0xA0
         : first == 0xF0 ? second >= 0x90
         : first == 0xF4 ? second < 0x90
                         : true;
}

/// Of a character with this first byte; 0: there is none.
size_t character_bytes(uint8_t first) {
  return first < 0x80                    ? 1
         : first >= 0xC2 && first < 0xE0 ? 2
         : first >= 0xE0 && first < 0xF0 ? 3
         : first >= 0xF0 && first < 0xF5 ? 4
                                         : 0;
}

bool is_control(std::string_view character) {
  const uint8_t first = byte_at(character, 0);
  if (character.size() == 2) return first == 0xC2 && byte_at(character, 1) < 0xA0;
  return character.size() == 1 && (first < 0x20 || first == 0x7F);
}

}  // namespace

size_t utf8_character(std::string_view text) {
  const uint8_t first = byte_at(text, 0);
  const size_t bytes = character_bytes(first);
  if (bytes == 0 || bytes > text.size()) return 0;
  const auto follows = [](char c) { return (static_cast<uint8_t>(c) & 0xC0U) == 0x80; };
  if (!std::ranges::all_of(text.substr(1, bytes - 1), follows)) return 0;
  return bytes == 1 || second_fits(first, byte_at(text, 1)) ? bytes : 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = utf8_character(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string shown_as_text(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t size = std::max<size_t>(1, utf8_character(bytes));
    const std::string_view character = bytes.substr(0, size);
    const bool ends_line = bytes.starts_with("\r\n") || character == "\n";
    const bool shown =
        utf8_character(bytes) > 0 && (ends_line || character == "\t" || !is_control(character));
    text += shown ? character : std::string_view("\uFFFD");
    bytes.remove_prefix(size);
  }
  return text;
}

size_t finished_text(std::string_view bytes) {
  if (bytes.ends_with('\r')) return bytes.size() - 1;
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back)
    if (character_bytes(byte_at(bytes, bytes.size() - back)) > back) return bytes.size() - back;
  return bytes.size();
}

}  // namespace telar
