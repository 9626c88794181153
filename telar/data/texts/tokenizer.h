#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telar/core/attributes.h"
#include "telar/data/dataset.h"
#include "telar/data/texts/window_places.h"

namespace telar {

/// A file tokenizer.json in the form of Hugging Face, as Python's package tokenizers reads it.
struct Tokenizer {
  std::string file;  ///< data.tokenizer

  /// Of the file, as data.tokenizer_checksum has it. Throws Error (user).
  std::string checksum() const;
};

/// The tokens of several texts, in a file of this machine's cache: i32, one text after another.
struct EncodedTexts {
  std::string path;
  std::vector<int64_t> counts;  ///< of each text
  int64_t vocabulary = 0;       ///< tokens are below it

  /// The tokens of each text, at most `most` of them. Throws Error (run).
  std::vector<std::vector<int32_t>> tokens(int64_t most) const;
};

/// Gives each text to a function, in order. Called twice, unless the tokens are in the cache.
using EachText = std::function<void(const std::function<void(std::string_view text)>&)>;

/// What Tokenizer.encode() gives for each text, whole, with the special tokens that the file adds. The
/// package is asked once; then the tokens are those of the cache, by the checksum of file and texts. Throws
/// Error (user): no such Python or package, a file that it does not read.
EncodedTexts encoded(const Tokenizer& tokenizer, const EachText& texts);
/// Of the beginning of a text: without the special tokens that the file adds to whole texts, and not kept.
std::vector<int32_t> encoded_prompt(const Tokenizer& tokenizer, std::string_view text);

/// Tokens as text. If the package writes the first `prompt` of them as the beginning of all, then as `text`.
std::string decoded(const Tokenizer& tokenizer, std::span<const int32_t> tokens, int64_t prompt,
                    const std::string& text);

/// Throws Error (user), with the line, for a text that is no UTF-8. `place`: of its first line, unless
/// `is_file`.
void require_utf8(std::string_view text, const std::string& place, bool is_file);

/// Windows of tokens, read when they are needed. read() throws Error (run) like byte_windows().
DatasetPtr token_windows(const EncodedTexts& texts, WindowPlaces places);

}  // namespace telar
