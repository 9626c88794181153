#include "telar/data/pictures/image_folder.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "telar/core/error.h"
#include "telar/core/suggest.h"
#include "telar/data/pictures/resize.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kPictureEndings = {".jpg", ".jpeg", ".png", ".webp",
                                                  ".gif", ".bmp",  ".tif", ".tiff"};

class ImageFolder : public Dataset {
 public:
  ImageFolder(SampleSpec spec, PictureListPtr list, const PictureReading& reading)
      : spec_(std::move(spec)), list_(std::move(list)), reading_(reading) {}

  int64_t size() const override { return static_cast<int64_t>(list_->files.size()); }
  const SampleSpec& spec() const override { return spec_; }

  void read(int64_t index, const SampleKey& /*key*/, std::span<std::byte> features,
            std::span<std::byte> label) const override {
    const PictureFile& picture = list_->files[static_cast<size_t>(index)];
    const Shape& shape = spec_.features;
    const Image image = decode_image(read_listed_file(picture.path), reading_, picture.path);
    resize_to_planes(image, shape[1], shape[2], as_floats(features));
    as_ints(label)[0] = picture.label;
  }

 private:
  SampleSpec spec_;
  PictureListPtr list_;
  PictureReading reading_;
};

void check_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw listed_file_error(path, errno);
  check_image_header(file, path);
}

uint64_t listed_file_bytes(const std::string& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) throw listed_file_error(path, error.value());
  return bytes;
}

/// Reads the size of each file, and its header if wanted: over a network, most of the time of opening.
void inspect(PictureList& list, const std::string& folder, const PictureListing& options) {
  const auto inspect_one = [&](int64_t index) {
    PictureFile& file = list.files[static_cast<size_t>(index)];
    file.bytes = listed_file_bytes(file.path);
    if (options.check_headers) check_header(file.path);
  };
  const std::vector<UnreadableSample> damaged = check_items(
      static_cast<int64_t>(list.files.size()), options.reading, [&] { return ItemCheck(inspect_one); });
  if (damaged.empty()) return;
  const std::string others = damaged.size() == 1 ? ""
                                                 : fmt::format("; {} of the {} pictures in {} cannot be read",
                                                               damaged.size(), list.files.size(), folder);
  throw user_error("{}{}", damaged.front().reason, others);
}

bool is_dangling(const fs::directory_entry& entry) { return entry.is_symlink() && !entry.exists(); }

void add_class(const fs::path& folder, PictureList& list) {
  const auto label = static_cast<int32_t>(list.classes.size());
  list.classes.push_back(folder.filename().string());
  const size_t before = list.files.size();
  std::vector<std::string> links;
  for (const fs::directory_entry& entry : visible_entries(folder)) {
    if (entry.is_regular_file() && is_picture(entry.path()))
      list.files.push_back({.path = entry.path().string(), .label = label});
    if (is_dangling(entry)) links.push_back(entry.path().string());
  }
  if (list.files.size() == before) {
    throw user_error("{}: this class has no pictures ({}); every class needs at least one{}{}",
                     folder.string(), picture_endings(), links.empty() ? "" : "; ", dangling_text(links));
  }
}

Error unreadable(const fs::filesystem_error& error) {
  return user_error("{}: cannot be read: {}", error.path1().string(), error.code().message());
}

std::string ignored_kind(const fs::directory_entry& entry) {
  if (entry.is_directory()) return "folders";
  if (!entry.is_regular_file()) return "that are no files";
  return entry.path().has_extension() ? entry.path().extension().string() : "without extension";
}

void ignore(const fs::directory_entry& entry, IgnoredFiles& ignored) {
  if (is_dangling(entry)) {
    ignored.links.push_back(entry.path().string());
  } else {
    ++ignored.kinds[ignored_kind(entry)];
  }
}

}  // namespace

std::string picture_endings() { return one_of(kPictureEndings); }

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kPictureEndings, ending) != kPictureEndings.end();
}

std::vector<fs::directory_entry> visible_entries(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

PictureListPtr list_pictures(const std::string& folder, const PictureListing& options) {
  if (!fs::is_directory(folder)) throw user_error("{}: there is no such folder", folder);
  PictureList list;
  try {
    for (const fs::directory_entry& entry : visible_entries(folder)) {
      if (entry.is_directory()) add_class(entry.path(), list);
    }
  } catch (const fs::filesystem_error& error) {
    throw unreadable(error);
  }
  if (list.classes.empty()) {
    throw user_error("{}: has no sub-folders; pictures are expected in one folder for each class", folder);
  }
  inspect(list, folder, options);
  return std::make_shared<const PictureList>(std::move(list));
}

DatasetPtr open_pictures(PictureListPtr list, const ImageFolderOptions& options) {
  constexpr int64_t kLargest = 1 << 14;
  if (options.height < 1 || options.width < 1 || options.height > kLargest || options.width > kLargest) {
    throw user_error("Pictures cannot be resized to {} x {}; each side must have 1 … {} pixels",
                     options.height, options.width, kLargest);
  }
  if (options.channels != 1 && options.channels != 3) {
    throw user_error("Pictures have 1 channel (grey) or 3 (RGB), not {}", options.channels);
  }
  SampleSpec spec;
  spec.features = {options.channels, options.height, options.width};
  spec.classes = static_cast<int64_t>(list->classes.size());
  spec.class_names = list->classes;
  const PictureReading reading{options.channels, options.rules, options.upright};
  return std::make_shared<ImageFolder>(std::move(spec), std::move(list), reading);
}

IgnoredFiles ignored_files(const std::string& folder) {
  IgnoredFiles ignored;
  try {
    for (const fs::directory_entry& entry : visible_entries(folder)) {
      if (!entry.is_directory()) {
        ignore(entry, ignored);
        continue;
      }
      for (const fs::directory_entry& inside : visible_entries(entry)) {
        if (!inside.is_regular_file() || !is_picture(inside)) ignore(inside, ignored);
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw unreadable(error);
  }
  return ignored;
}

std::string dangling_text(const std::vector<std::string>& links) {
  if (links.empty()) return "";
  return fmt::format("{} link{} to nothing ({}{})", links.size(), links.size() == 1 ? " leads" : "s lead",
                     links.front(), links.size() == 1 ? "" : ", …");
}

}  // namespace telar
