#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "telar/data/dataset.h"

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

struct TextWindowOptions {
  int64_t length = 128;  ///< tokens of a sample
  int64_t stride = 128;  ///< from the beginning of a sample to that of the next one
};

/// A sample for each window of a text, within one file.
class TextWindows final : public Dataset {
 public:
  /// Throws Error (user) if no file has a window. `path`: of the texts, for messages.
  TextWindows(const std::string& path, const std::vector<TextFile>& files, const TextWindowOptions& options);
  ~TextWindows() override;

  int64_t size() const override;
  /// Features: `length` bytes as i32; labels, of the same shape: the byte that follows each of them.
  const SampleSpec& spec() const override { return spec_; }
  /// Throws Error (run) for a file that is shorter than it was, or cannot be read.
  void read(int64_t index, const SampleKey& key, std::span<std::byte> features,
            std::span<std::byte> label) const override;

  /// Files in which there is no window.
  int64_t files_without() const;

 private:
  struct Files;
  SampleSpec spec_;
  TextWindowOptions options_;
  std::unique_ptr<const Files> files_;
};

/// The samples of TextWindows with this number of tokens.
SampleSpec spec_of_windows(int64_t length, int64_t tokens);

}  // namespace telar
