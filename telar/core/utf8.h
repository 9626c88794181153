#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace telar {

/// The bytes of the UTF-8 character with which a text begins, 1 to 4; 0 if it begins with none, or with a cut
/// one. (RFC 3629: no longer form than necessary, no surrogate, at most U+10FFFF.) The text is not empty.
size_t utf8_character(std::string_view text);

/// Whether a text consists of such characters.
bool is_utf8(std::string_view text);

/// Any bytes as text that a terminal shows and that does nothing else: bytes that are no UTF-8, and control
/// characters other than tab and line end, become U+FFFD.
std::string shown_as_text(std::string_view bytes);

/// How many of the bytes shown_as_text() shows alike whatever follows: all but a last character, or a line
/// end, that may be cut.
size_t finished_text(std::string_view bytes);

}  // namespace telar
