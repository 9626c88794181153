#include "telar/data/arrays/idx.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/source.h"

namespace telar {

namespace {

constexpr std::string_view kIdxMagic{"\0\0\x08\x03", 4};

constexpr const char* kFolderHelp = "The folder with the published files.";

/// A file of a set: "train-images-idx3-ubyte.gz". Others may lie beside it.
bool is_idx_file(const std::string& name) { return name.find("-ubyte") != std::string::npos; }

bool is_idx(const Bytes& file) {
  return file.size() >= kIdxMagic.size() &&
         std::ranges::equal(kIdxMagic, std::span(file).first(kIdxMagic.size()),
                            [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

DatasetPtr idx_inputs(InputFile file, const Attributes* /*options*/) {
  const IdxHeader header = parse_idx_header(file.bytes, 3, file.path);
  const auto count = static_cast<uint32_t>(header.shape[0]);
  Bytes labels = {0, 0, 8, 1};
  for (const int shift : {24, 16, 8, 0}) labels.push_back(static_cast<uint8_t>(count >> shift));
  labels.resize(labels.size() + (header.total <= file.bytes.size() ? count : 0));
  return idx_from_bytes(std::move(file.bytes), std::move(labels), 1, file.path, "labels");
}

void check_idx(const Attributes& options) {
  require_path("idx", options);
  if (options.integer("classes") == 0)
    throw OptionError("classes", "data.classes is 0; for idx files it must be at least 1");
}

/// A published set of 28 × 28 images in ten classes.
SourceType published(const std::string& name, const std::string& summary, const std::string& folder,
                     Moments moments) {
  return {.name = name,
          .summary = summary,
          .unit = "images",
          .options = {path_option("path", kFolderHelp, folder)},
          .paths = {"path"},
          .test_paths = {"path"},
          .bytes_are_fractions = [](const Attributes&) { return true; },
          .moments = std::move(moments),
          .open =
              [](const SourceRequest& request, Split part) {
                return OpenedSource{open_idx_folder(request.options.text("path"), part, 10)};
              },
          .spec =
              [](const Attributes&) {
                SampleSpec spec;
                spec.features = {1, 28, 28};
                spec.classes = 10;
                return spec;
              },
          .check = [name](const Attributes& options) { require_path(name, options); },
          .owns = is_idx_file};
}

}  // namespace

void register_idx(SourceRegistry& registry) {
  registry.add({.name = "idx",
                .summary = "images and labels in the four files of MNIST's format",
                .unit = "images",
                .options = {path_option("path", kFolderHelp), classes_option()},
                .paths = {"path"},
                .test_paths = {"path"},
                .bytes_are_fractions = [](const Attributes&) { return true; },
                .open =
                    [](const SourceRequest& request, Split part) {
                      return OpenedSource{open_idx_folder(request.options.text("path"), part,
                                                          request.options.integer("classes"))};
                    },
                .check = check_idx,
                .owns = is_idx_file,
                .inputs = {.described = "IDX images", .recognises = is_idx, .open = idx_inputs}});
  registry.add(published("mnist", "MNIST's handwritten digits", "", {{0.1307}, {0.3081}}));
  registry.add(published("fashion-mnist", "Fashion-MNIST's photos of clothes",
                         "/usr/share/datasets/fashion-mnist", {{0.2860}, {0.3530}}));
}

}  // namespace telar
