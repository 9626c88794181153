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
const std::array<std::pair<std::string_view, const char*>, 4> kCompressed = {{{"\x1F\x8B", "gzip"},
                                                                              {"\x28\xB5\x2F\xFD", "zstd"},
                                                                              {"\xFD"
                                                                               "7zXZ",
                                                                               "xz"},
                                                                              {"PK\x03\x04", "zip"}}};

/// "BZh", which a text may begin with, is followed by a digit and the mark of a block.
bool is_bzip2(std::string_view start) {
  return start.size() >= 10 && start.starts_with("BZh") && start[3] >= '1' && start[3] <= '9' &&
         start.substr(4).starts_with("1AY&SY");
}

TextFile text_file(const std::string& path) {
  const auto bytes = static_cast<int64_t>(file_size_of(path));
  std::string start(static_cast<size_t>(std::min<int64_t>(bytes, 16)), '\0');
  const OpenFile file(path);
  if (file.descriptor() < 0) throw user_error("{}: cannot be opened", path);
  start.resize(file.read(path, 0, std::as_writable_bytes(std::span(start))));
  refuse_compressed(path, start);
  return {path, bytes};
}

std::vector<std::string> paths_of(const std::vector<TextFile>& files) {
  std::vector<std::string> paths;
  for (const TextFile& file : files) paths.push_back(file.path);
  return paths;
}

class ByteWindows final : public Dataset {
 public:
  ByteWindows(const std::vector<TextFile>& files, WindowPlaces places)
      : places_(std::move(places)),
        spec_(spec_of_windows(places_.options().length, kByteTokens)),
        files_(paths_of(files)) {}

  int64_t size() const override { return places_.count(); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const WindowPlaces::Place place = places_.at(index);
    const auto count = static_cast<size_t>(places_.options().length) + 1;
    const auto bytes = std::make_unique_for_overwrite<uint8_t[]>(count);
    const std::span<uint8_t> text(bytes.get(), count);
    files_.read(place.text, static_cast<uint64_t>(place.begin), std::as_writable_bytes(text));
    std::ranges::copy(text.first(count - 1), as_ints(features).begin());
    std::ranges::copy(text.last(count - 1), as_ints(label).begin());
  }

 private:
  WindowPlaces places_;
  SampleSpec spec_;
  OpenFiles files_;
};

class WordWindows final : public Dataset {
 public:
  WordWindows(std::vector<std::vector<int32_t>> texts, std::vector<std::string> words, WindowPlaces places)
      : texts_(std::move(texts)),
        places_(std::move(places)),
        spec_(spec_of_windows(places_.options().length, std::ssize(words))) {
    spec_.class_names = std::move(words);
  }

  int64_t size() const override { return places_.count(); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const WindowPlaces::Place place = places_.at(index);
    const auto count = static_cast<size_t>(places_.options().length);
    const auto window = std::span(texts_[place.text]).subspan(static_cast<size_t>(place.begin), count + 1);
    std::ranges::copy(window.first(count), as_ints(features).begin());
    std::ranges::copy(window.last(count), as_ints(label).begin());
  }

 private:
  std::vector<std::vector<int32_t>> texts_;
  WindowPlaces places_;
  SampleSpec spec_;
};

}  // namespace

void refuse_compressed(const std::string& path, std::string_view start) {
  if (is_bzip2(start)) throw user_error("{}: is compressed (bzip2); unpack it first", path);
  for (const auto& [magic, name] : kCompressed)
    if (start.starts_with(magic)) throw user_error("{}: is compressed ({}); unpack it first", path, name);
}

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
  spec.vocabulary = tokens;
  spec.classes = tokens;
  spec.labels = {length};
  return spec;
}

DatasetPtr byte_windows(const std::vector<TextFile>& files, WindowPlaces places) {
  return std::make_shared<ByteWindows>(files, std::move(places));
}

DatasetPtr word_windows(std::vector<std::vector<int32_t>> texts, std::vector<std::string> words,
                        WindowPlaces places) {
  return std::make_shared<WordWindows>(std::move(texts), std::move(words), std::move(places));
}

}  // namespace telar
