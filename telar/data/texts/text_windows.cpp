#include "telar/data/texts/text_windows.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/open_files.h"
#include "telar/data/pictures/image_folder.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

/// The first bytes of files that must be unpacked first.
const std::array<std::pair<std::string_view, const char*>, 5> kCompressed = {{{"\x1F\x8B", "gzip"},
                                                                              {"\x28\xB5\x2F\xFD", "zstd"},
                                                                              {"\xFD"
                                                                               "7zXZ",
                                                                               "xz"},
                                                                              {"BZh", "bzip2"},
                                                                              {"PK\x03\x04", "zip"}}};

TextFile text_file(const std::string& path) {
  const auto bytes = static_cast<int64_t>(file_size_of(path));
  std::string start(static_cast<size_t>(std::min<int64_t>(bytes, 8)), '\0');
  const OpenFile file(path);
  if (file.descriptor() < 0) throw user_error("{}: cannot be opened", path);
  start.resize(file.read(path, 0, std::as_writable_bytes(std::span(start))));
  for (const auto& [magic, name] : kCompressed)
    if (start.starts_with(magic)) throw user_error("{}: is compressed ({}); unpack it first", path, name);
  return {path, bytes};
}

std::vector<std::string> paths_of(const std::vector<TextFile>& files) {
  std::vector<std::string> paths;
  for (const TextFile& file : files) paths.push_back(file.path);
  return paths;
}

}  // namespace

std::vector<TextFile> list_texts(const std::string& path) {
  if (!fs::exists(path)) throw user_error("{}: there is no such file or folder", path);
  if (!fs::is_directory(path)) return {text_file(path)};
  std::vector<TextFile> files;
  try {
    for (const fs::directory_entry& entry : visible_entries(path))
      if (entry.is_regular_file()) files.push_back(text_file(entry.path().string()));
  } catch (const fs::filesystem_error& error) {
    throw user_error("{}: cannot be read: {}", error.path1().string(), error.code().message());
  }
  if (files.empty()) throw user_error("{}: has no files; texts are the files of this folder itself", path);
  return files;
}

SampleSpec spec_of_windows(int64_t length, int64_t tokens) {
  SampleSpec spec;
  spec.features = {length};
  spec.dtype = DType::i32;
  spec.classes = tokens;
  spec.labels = {length};
  return spec;
}

struct TextWindows::Files {
  explicit Files(const std::vector<TextFile>& files) : open(paths_of(files)) {}
  OpenFiles open;
  std::vector<int64_t> ends = {};  ///< of each file, the number of samples up to its end
};

TextWindows::TextWindows(const std::string& path, const std::vector<TextFile>& files,
                         const TextWindowOptions& options)
    : spec_(spec_of_windows(options.length, kByteTokens)), options_(options) {
  auto opened = std::make_unique<Files>(files);
  int64_t samples = 0;
  int64_t longest = 0;
  for (const TextFile& file : files) {
    // The last token of a window has a label, too.
    if (file.bytes > options.length) samples += (file.bytes - options.length - 1) / options.stride + 1;
    longest = std::max(longest, file.bytes);
    opened->ends.push_back(samples);
  }
  if (samples == 0)
    throw user_error("{}: {} has {} bytes; a sample has data.length {}, and the byte after it, {} in all",
                     path, files.size() == 1 ? "the file" : "the longest file", longest, options.length,
                     options.length + 1);
  files_ = std::move(opened);
}

TextWindows::~TextWindows() = default;

int64_t TextWindows::size() const { return files_->ends.back(); }

void TextWindows::read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
                       std::span<std::byte> label) const {
  const std::vector<int64_t>& ends = files_->ends;
  const auto file = static_cast<size_t>(std::ranges::upper_bound(ends, index) - ends.begin());
  const int64_t window = index - (file == 0 ? 0 : ends[file - 1]);
  const auto count = static_cast<size_t>(options_.length) + 1;
  const auto bytes = std::make_unique_for_overwrite<uint8_t[]>(count);
  const std::span<uint8_t> text(bytes.get(), count);
  files_->open.read(file, static_cast<uint64_t>(window * options_.stride), std::as_writable_bytes(text));
  std::ranges::copy(text.first(count - 1), as_ints(features).begin());
  std::ranges::copy(text.last(count - 1), as_ints(label).begin());
}

int64_t TextWindows::files_without() const {
  int64_t before = 0;
  return std::ranges::count_if(files_->ends, [&](int64_t end) { return std::exchange(before, end) == end; });
}

}  // namespace telar
