#include "telar/data/arrays/npy.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/arrays/npy_shards.h"
#include "telar/data/file_pattern.h"
#include "telar/data/source.h"

namespace telar {

namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

bool is_npy(const Bytes& file) {
  return file.size() >= kNpyMagic.size() &&
         std::ranges::equal(kNpyMagic, std::span(file).first(kNpyMagic.size()),
                            [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

OpenedSource open_arrays(const SourceRequest& request, Split part) {
  const bool train = part == Split::train;
  const Attributes& options = request.options;
  const std::string& path = options.text(train ? "path" : "test_path");
  if (path.empty()) return {};
  const std::string& labels = options.text(train ? "label_path" : "test_label_path");
  const int64_t classes = options.integer("classes");
  if (is_file_pattern(path) != is_file_pattern(labels))
    throw user_error("{} and {}: only one of them stands for several files; both need a '*', or neither",
                     path, labels);
  if (is_file_pattern(path)) return {open_npy_shards(path, labels, classes)};
  OpenedSource opened{open_npy(path, labels, classes)};
  std::string warning = train && classes == 0 ? npy_target_warning(read_file(labels), labels) : "";
  if (!warning.empty()) opened.notes.push_back(std::move(warning));
  return opened;
}

std::string shards_in(const Attributes& options) {
  std::string text;
  for (const char* name : {"path", "test_path"}) {
    const std::string& path = options.text(name);
    if (!is_file_pattern(path)) continue;
    const size_t shards = files_of_pattern(path).size();
    text += fmt::format("{}: {} shard{}\n", path, shards, shards == 1 ? "" : "s");
  }
  return text;
}

void check_npy(const Attributes& options) {
  require_path("npy", options);
  if (options.text("label_path").empty()) throw OptionError("source", "source npy needs 'data.label_path'");
  if (options.text("test_path").empty() != options.text("test_label_path").empty())
    throw OptionError("test_path", "data.test_path and data.test_label_path must be given together");
}

DatasetPtr npy_inputs(InputFile file, const Attributes* /*options*/) {
  const int64_t count = parse_npy(file.bytes, file.path).shape[0];
  std::string header = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({},), }}", count);
  header.resize(118, ' ');  // with magic, version and length a multiple of 64, as the format requires
  const std::string start = std::string(kNpyMagic) + std::string("\1\0\x76\0", 4) + header;
  Bytes labels(start.begin(), start.end());
  labels.resize(labels.size() + static_cast<size_t>(count) * sizeof(int32_t));
  const float byte_scale = file.bytes_are_fractions ? 1.0F / 255.0F : 1.0F;
  return npy_from_bytes(std::move(file.bytes), labels, 1, file.path, "labels", byte_scale);
}

}  // namespace

void register_npy(SourceRegistry& registry) {
  registry.add({.name = "npy",
                .summary = "NumPy arrays, one of features and one of labels",
                .options = {path_option("path",
                                        "The file of features. With one `*` in its name, the files of its "
                                        "shards: `shards/x-*.npy`. Shards are read sample by sample, when "
                                        "they are needed."),
                            test_path_option(),
                            path_option("label_path",
                                        "The file of labels, or with a `*` those of the shards with the same "
                                        "text in its place: `shards/label-*.npy`."),
                            path_option("test_label_path", "The file of labels of the test samples."),
                            classes_option()},
                .paths = {"path", "test_path", "label_path", "test_label_path"},
                .test_paths = {"test_path", "test_label_path"},
                .test_by_user = true,
                .open = open_arrays,
                .check = check_npy,
                .remark = shards_in,
                .inputs = {.described = "a .npy array", .recognises = is_npy, .open = npy_inputs}});
}

}  // namespace telar
