#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telar/data/dataset.h"
#include "telar/data/texts/window_places.h"

namespace telar {

/// The tokens of a text of bytes: each byte is one.
inline constexpr int64_t kByteTokens = 256;

/// A file of text, with its size when it was listed.
struct TextFile {
  std::string path;
  int64_t bytes = 0;
};

/// A file, or the files of a folder in the order of their names; hidden ones and folders do not count. Throws
/// Error (user): nothing is there, a folder without files, a file that is compressed or cannot be read.
std::vector<TextFile> list_texts(const std::string& path);

/// Throws Error (user) if a file begins as one that must be unpacked first.
void refuse_compressed(const std::string& path, std::string_view start);

/// A sample for each window: `length` tokens, and as its label the token that follows each of them.
SampleSpec spec_of_windows(int64_t length, int64_t tokens);

/// Windows of bytes, read when they are needed. read() throws Error (run) for a file that is shorter than it
/// was, or cannot be read.
DatasetPtr byte_windows(const std::vector<TextFile>& files, WindowPlaces places);

/// Windows of words. `texts`: the token of each word. `words`: by token, the names of the classes.
DatasetPtr word_windows(std::vector<std::vector<int32_t>> texts, std::vector<std::string> words,
                        WindowPlaces places);

}  // namespace telar
