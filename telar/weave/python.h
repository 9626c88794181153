#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "telar/core/error.h"
#include "telar/weave/syntax.h"

namespace telar::weave {

/// A file as read: the text in UTF-8 without byte order mark, and how to write it again.
struct SourceText {
  std::string text;
  std::string encoding;  ///< as its first lines say (PEP 263); "utf-8" when they say nothing
  bool mark = false;     ///< it began with a UTF-8 byte order mark
};

/// Decodes the bytes of a file as Python does. Throws Error (user) for bytes that are not text in the encoding.
SourceText decode(const std::string& file, std::string_view bytes);
/// The bytes of a file with this text. Throws Error (user) when the encoding lacks a character.
std::string encode(const std::string& file, const SourceText& source);

/// The syntax trees, by CPython's own parser, of a script and the files that it imports, the script last. Throws Error (user)
/// with Python's message, line and caret when one is no program of this Python.
Tree parse(std::vector<SourceFile> files);
/// The same without making the tree.
void check_syntax(const std::string& file, const std::string& text);
/// Python's report of what is no program: file, line, the line's text, a caret below the character at `column` (0 is the first), and
/// the message ("SyntaxError: invalid syntax").
Error syntax_error(const std::string& file, long line, std::string_view text, long column,
                   const std::string& message);
/// Whether a text is a program; of one that is, false may be said too, when a line of a string looks like a definition.
bool is_program(const std::string& text);

}  // namespace telar::weave
