#include "telar/comm/printable.h"

#include <algorithm>

namespace telar {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }  // in UTF-8

}  // namespace

std::string printable(std::string text, size_t longest) {
  if (text.size() > longest) {
    while (longest > 0 && continues_character(text[longest])) --longest;
    text.resize(longest);
    text += "…";
  }
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

}  // namespace telar
