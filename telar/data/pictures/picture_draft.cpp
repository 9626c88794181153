#include <algorithm>
#include <filesystem>

#include "telar/core/error.h"
#include "telar/data/files.h"
#include "telar/data/pictures/image.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/data/source_draft.h"
#include "telar/observe/process.h"

namespace telar {

namespace {

namespace fs = std::filesystem;

/// What some of the pictures are, decoded.
struct PictureLook {
  int64_t height = 0;  ///< medians
  int64_t width = 0;
  bool grey = true;  ///< all of them
};

bool is_grey(const Image& image) {
  for (size_t at = 0; at + 2 < image.pixels.size(); at += 3)
    if (image.pixels[at] != image.pixels[at + 1] || image.pixels[at] != image.pixels[at + 2]) return false;
  return true;
}

PictureLook look_at_pictures(const PictureList& list) {
  constexpr size_t kMost = 20;
  const size_t count = std::min(kMost, list.files.size());
  std::vector<int64_t> heights;
  std::vector<int64_t> widths;
  PictureLook look;
  for (size_t i = 0; i < count; ++i) {
    const std::string& path = list.files[i * list.files.size() / count].path;
    const Image image = decode_image(read_file(path), {}, path);
    heights.push_back(image.height);
    widths.push_back(image.width);
    look.grey = look.grey && is_grey(image);
  }
  std::ranges::sort(heights);
  std::ranges::sort(widths);
  look.height = heights[count / 2];
  look.width = widths[count / 2];
  return look;
}

}  // namespace

SourceDraft draft_of_pictures(const std::string& folder) {
  constexpr int64_t kSmall = 32;    // for which convnet is made
  constexpr int64_t kLargest = 64;  // that a processor trains in minutes
  const fs::path train = fs::path(folder) / "train";
  const fs::path test = fs::path(folder) / "test";
  SourceDraft draft;
  draft.tests_elsewhere = fs::is_directory(train) && fs::is_directory(test);
  const std::string path = draft.tests_elsewhere ? train.string() : folder;
  const PictureListPtr list = list_pictures(path, {.reading = {.threads = available_threads(), .watch = {}}});
  const PictureLook look = look_at_pictures(*list);
  std::vector<int64_t> counts(list->classes.size());
  for (const PictureFile& file : list->files) ++counts[static_cast<size_t>(file.label)];
  draft.samples = std::ssize(list->files);
  draft.described = fmt::format("{} images of {} classes", list->files.size(), counts.size());
  draft.unequal = are_unequal(counts);
  draft.options.push_back({"path", path});
  if (draft.tests_elsewhere) draft.options.push_back({"test_path", test.string()});
  const std::vector<int64_t> shape = {look.grey ? 1 : 3, std::min(kLargest, look.height),
                                      std::min(kLargest, look.width)};
  draft.options.push_back({"shape", shape,
                           fmt::format("{}, height, width; they are about {} × {}",
                                       look.grey ? "grey" : "colours", look.height, look.width)});
  draft.model = std::max(shape[1], shape[2]) <= kSmall ? "convnet" : "{name: resnet18, options: {stem: 3x3}}";
  draft.hints.emplace_back("augment: {flip: true, padding: 4} suits photos that may be mirrored");
  if (counts.size() < 2)
    draft.problems.push_back(path + ": has a single class; each class needs a folder of its own");
  return draft;
}

}  // namespace telar
