#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace telar::weave {

/// The encoding that one of the first two lines names (PEP 263: `# -*- coding: latin-1 -*-`); empty when none does.
std::string declared_encoding(std::string_view bytes);
/// Whether an encoding of that name is UTF-8.
bool is_utf8(std::string name);

/// The text of a program cut before definitions at its left margin, so that Python's parser, which takes a hundred bytes of memory for
/// one of text, can take it a piece at a time. Together the pieces are the text. When each is a program, so is the text; the
/// inverse does not hold: a line of a string can look like a definition.
std::vector<std::string_view> pieces(std::string_view text);

}  // namespace telar::weave
