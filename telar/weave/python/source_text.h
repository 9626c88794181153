#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace telar::weave {

/// The encoding that one of the first two lines declares (PEP 263: `# -*- coding: latin-1 -*-`); empty if
/// none does.
std::string declared_encoding(std::string_view bytes);
/// Whether `name` is a name of UTF-8.
bool is_utf8(std::string name);

/// Cuts the text of a program before definitions at its left margin. Python's parser takes a hundred bytes of
/// memory for each source byte, so it receives one piece at a time. The pieces together are the text. If each
/// piece is a valid program, so is the text. The converse does not hold, because a line of a string can look
/// like a definition.
std::vector<std::string_view> pieces(std::string_view text);

}  // namespace telar::weave
