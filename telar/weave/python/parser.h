#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "telar/core/error.h"
#include "telar/weave/python/syntax.h"

namespace telar::weave {

/// The text of a file in UTF-8 without byte order mark, and its original encoding.
struct SourceText {
  std::string text;
  std::string encoding;  ///< from its first two lines (PEP 263); "utf-8" by default
  bool mark = false;     ///< it starts with a UTF-8 byte order mark
};

/// Decodes a file as Python does. Throws Error (user) if the bytes are not valid in the encoding.
SourceText decode(const std::string& file, std::string_view bytes);
/// Encodes the text in the encoding of the file. Throws Error (user) if the encoding lacks a character.
std::string encode(const std::string& file, const SourceText& source);

/// Parses a script and the files that it imports with CPython's own parser; the script is last. Throws Error
/// (user) with Python's message, line and caret if a file is not valid for this Python version.
Tree parse(std::vector<SourceFile> files);
/// Parses without creating the tree. Throws the same Error.
void check_syntax(const std::string& file, const std::string& text);
/// A syntax error as Python reports it: file, line, the line's text, a caret below the character at `column`
/// (from 0), and the message ("SyntaxError: invalid syntax").
Error syntax_error(const std::string& file, long line, std::string_view text, long column,
                   const std::string& message);
/// Whether a text is a valid program. May return false for a valid one if a line of a string looks like a
/// definition.
bool is_program(const std::string& text);

}  // namespace telar::weave
