#include <filesystem>
#include <optional>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/in_memory.h"
#include "telar/data/pictures/image.h"
#include "telar/data/pictures/image_folder.h"
#include "telar/data/pictures/resize.h"
#include "telar/data/source.h"

namespace telar {

namespace {

bool turns(const Attributes& options) { return options.text("orientation") == "exif"; }

OpenedSource open_folder(const SourceRequest& request, Split part) {
  const std::string& folder = request.options.text(part == Split::train ? "path" : "test_path");
  if (folder.empty()) return {};
  const std::vector<int64_t>& shape = request.options.integers("shape");
  PictureListPtr list = list_pictures(folder, request.listing);
  DatasetPtr samples = open_pictures(list, {.height = shape[1],
                                            .width = shape[2],
                                            .channels = shape[0],
                                            .rules = request.rules,
                                            .upright = turns(request.options)});
  return {std::move(samples), std::move(list)};
}

void check_images(const Attributes& options) {
  require_path("images", options);
  const std::vector<int64_t>& shape = options.integers("shape");
  if (shape.size() == 3 && (shape[0] == 1 || shape[0] == 3)) return;
  throw OptionError(
      "shape",
      fmt::format(
          "data.shape has {} numbers; for images it must be [channels, height, width], with 1 or 3 channels",
          shape.size()));
}

std::string ignored_in(const std::string& folder) {
  if (folder.empty()) return "";
  const IgnoredFiles ignored = ignored_files(folder);
  std::string text;
  std::vector<std::string> parts;
  for (const auto& [kind, count] : ignored.kinds) parts.push_back(fmt::format("{} {}", count, kind));
  if (!parts.empty())
    text = fmt::format("ignored in {}: {}; images are files in the folder of their class that end with {}\n",
                       folder, fmt::join(parts, ", "), picture_endings());
  if (!ignored.links.empty())
    text += fmt::format("ignored in {}: {}\n", folder, dangling_text(ignored.links));
  return text;
}

DatasetPtr image_input(const InputFile& file, const Attributes* options) {
  const Shape& wanted = file.features;
  if (wanted.rank() != 3 || (wanted[0] != 1 && wanted[0] != 3)) {
    throw user_error("{} is an image, but the model takes samples of shape {}", file.path, wanted.str());
  }
  std::vector<float> planes(static_cast<size_t>(wanted.elements()));
  const PictureReading reading{wanted[0], file.rules, options == nullptr || turns(*options)};
  resize_to_planes(decode_image(file.bytes, reading, file.path), wanted[1], wanted[2], planes);
  SampleSpec spec;
  spec.features = wanted;
  spec.classes = 1;
  return in_memory(spec, bytes_of(planes), 0, bytes_of(no_labels(1)));
}

std::optional<SourceDraft> draft_images(const std::string& path, const std::string& label) {
  if (!std::filesystem::is_directory(path)) return std::nullopt;
  if (!label.empty())
    throw user_error("--label: {} is a folder of images, whose folders are their classes", path);
  return draft_of_pictures(path);
}

}  // namespace

void register_images(SourceRegistry& registry) {
  registry.add(
      {.name = "images",
       .summary = "JPEG, PNG, WebP, GIF, BMP and TIFF files in one folder for each class",
       .unit = "images",
       .options = {path_option("path", "The folder with one subfolder per class."), test_path_option(),
                   samples_option("shape", std::vector<int64_t>{1, 28, 28}, {.least = 1, .most = 1 << 20},
                                  "[channels, height, width] of a sample; images are resized to it."),
                   samples_option("orientation", std::string("exif"), {.choices = {"exif", "file"}},
                                  "exif: images are turned upright as their EXIF orientation says. file: "
                                  "their rows and columns stay as they are stored.")},
       .paths = {"path", "test_path"},
       .test_paths = {"test_path"},
       .test_by_user = true,
       .file_each = true,
       .bytes_are_fractions = [](const Attributes&) { return true; },
       .open = open_folder,
       .check = check_images,
       .remark =
           [](const Attributes& options) {
             return ignored_in(options.text("path")) + ignored_in(options.text("test_path"));
           },
       .inputs = {.described = "a JPEG, PNG, WebP, GIF, BMP or TIFF image",
                  .recognises = [](const Bytes& file) { return image_format(file) != ImageFormat::unknown; },
                  .open = image_input},
       .draft = draft_images});
}

}  // namespace telar
