#include "telar/data/npy.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
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
  return {open_npy(path, options.text(train ? "label_path" : "test_label_path"), options.integer("classes"))};
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
  return npy_from_bytes(std::move(file.bytes), labels, 1, file.path, "labels");
}

}  // namespace

void register_npy(SourceRegistry& registry) {
  registry.add({.name = "npy",
                .summary = "NumPy arrays, one of features and one of labels",
                .options = {path_option("path", "The file of features."), test_path_option(),
                            path_option("label_path", "The file of labels."),
                            path_option("test_label_path", "The file of labels of the test samples."),
                            classes_option()},
                .paths = {"path", "test_path", "label_path", "test_label_path"},
                .test_paths = {"test_path", "test_label_path"},
                .test_by_user = true,
                .open = open_arrays,
                .check = check_npy,
                .inputs = {.described = "a .npy array", .recognises = is_npy, .open = npy_inputs}});
}

}  // namespace telar
