#include "telar/data/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/image.h"
#include "telar/data/resize.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

struct Picture {
  std::string path;
  int32_t label;
};

class ImageFolder : public Dataset {
 public:
  ImageFolder(SampleSpec spec, std::vector<Picture> pictures)
      : spec_(std::move(spec)), pictures_(std::move(pictures)) {}

  int64_t size() const override { return static_cast<int64_t>(pictures_.size()); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const Picture& picture = pictures_[static_cast<size_t>(index)];
    const Shape& shape = spec_.features;
    const Image image = decode_image(read_file(picture.path), shape[0], picture.path);
    resize_to_planes(image, shape[1], shape[2], as_floats(features));
    as_ints(label)[0] = picture.label;
  }

 private:
  SampleSpec spec_;
  std::vector<Picture> pictures_;
};

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

void check_picture(const std::string& path) {
  std::array<uint8_t, 8> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw user_error("{}: cannot be opened", path);
  file.read(reinterpret_cast<char*>(head.data()), head.size());
  if (file.gcount() == 0) throw user_error("{}: is empty, but a picture was expected", path);
  if (image_format({head.data(), static_cast<size_t>(file.gcount())}) == ImageFormat::unknown) {
    throw user_error("{}: is neither a JPEG nor a PNG file", path);
  }
}

/// The entries of a folder that are not hidden, sorted.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

void add_class(const fs::path& folder, SampleSpec& spec, std::vector<Picture>& pictures) {
  const auto label = static_cast<int32_t>(spec.classes++);
  spec.class_names.push_back(folder.filename().string());
  const size_t before = pictures.size();
  for (const fs::path& path : entries_of(folder)) {
    if (!fs::is_regular_file(path) || !is_picture(path)) continue;
    check_picture(path.string());
    pictures.push_back({path.string(), label});
  }
  if (pictures.size() == before) {
    throw user_error("{}: this class has no pictures (.jpg, .jpeg or .png); every class needs at least one",
                     folder.string());
  }
}

}  // namespace

DatasetPtr open_image_folder(const std::string& folder, const ImageFolderOptions& options) {
  constexpr int64_t kLargest = 1 << 14;
  if (options.height < 1 || options.width < 1 || options.height > kLargest || options.width > kLargest) {
    throw user_error("Pictures cannot be resized to {} x {}; each side must have 1 … {} pixels",
                     options.height, options.width, kLargest);
  }
  if (options.channels != 1 && options.channels != 3) {
    throw user_error("Pictures have 1 channel (grey) or 3 (RGB), not {}", options.channels);
  }
  if (!fs::is_directory(folder)) throw user_error("{}: there is no such folder", folder);
  SampleSpec spec;
  spec.features = {options.channels, options.height, options.width};
  std::vector<Picture> pictures;
  try {
    for (const fs::path& path : entries_of(folder)) {
      if (fs::is_directory(path)) add_class(path, spec, pictures);
    }
  } catch (const fs::filesystem_error& error) {
    throw user_error("{}: cannot be read: {}", error.path1().string(), error.code().message());
  }
  if (spec.classes == 0) {
    throw user_error("{}: has no sub-folders; pictures are expected in one folder for each class", folder);
  }
  return std::make_shared<ImageFolder>(std::move(spec), std::move(pictures));
}

}  // namespace telar
