#include <algorithm>

#include "telar/core/error.h"
#include "telar/data/csv.h"
#include "telar/data/files.h"
#include "telar/data/idx.h"
#include "telar/data/image.h"
#include "telar/data/in_memory.h"
#include "telar/data/npy.h"
#include "telar/data/resize.h"
#include "telar/train/pipeline.h"
#include "telar/train/sources.h"
#include "telar/train/trained.h"

namespace telar {

/// The dataset readers expect labels. Samples to predict have none, so each gets the label 0.
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::string_view kIdxMagic{"\0\0\x08\x03", 4};
constexpr std::string_view kGzipMagic = "\x1f\x8b";

bool begins_with(std::span<const uint8_t> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

DatasetPtr from_picture(std::span<const uint8_t> file, const Shape& wanted, const std::string& path) {
  if (wanted.rank() != 3 || (wanted[0] != 1 && wanted[0] != 3)) {
    throw user_error("{} is an image, but the model takes samples of shape {}", path, wanted.str());
  }
  std::vector<float> planes(static_cast<size_t>(wanted.elements()));
  resize_to_planes(decode_image(file, wanted[0], path), wanted[1], wanted[2], planes);
  SampleSpec spec;
  spec.features = wanted;
  spec.classes = 1;
  return in_memory(spec, bytes_of(planes), 0, bytes_of(std::vector<int32_t>{0}));
}

DatasetPtr from_idx(Bytes file, const std::string& path) {
  const IdxHeader header = parse_idx_header(file, 3, path);
  const auto count = static_cast<uint32_t>(header.shape[0]);
  Bytes labels = {0, 0, 8, 1};
  for (const int shift : {24, 16, 8, 0}) labels.push_back(static_cast<uint8_t>(count >> shift));
  labels.resize(labels.size() + (header.total <= file.size() ? count : 0));
  return idx_from_bytes(std::move(file), std::move(labels), 1, path, "labels");
}

DatasetPtr from_npy(Bytes file, const std::string& path) {
  const int64_t count = parse_npy(file, path).shape[0];
  std::string header = fmt::format("{{'descr': '<i4', 'fortran_order': False, 'shape': ({},), }}", count);
  header.resize(118, ' ');  // with magic, version and length a multiple of 64, as the format requires
  const std::string start = std::string(kNpyMagic) + std::string("\1\0\x76\0", 4) + header;
  Bytes labels(start.begin(), start.end());
  labels.resize(labels.size() + static_cast<size_t>(count) * sizeof(int32_t));
  return npy_from_bytes(std::move(file), labels, 1, path, "labels");
}

DatasetPtr from_csv(std::span<const uint8_t> file, const DataJob& data, const std::string& path) {
  std::string text;
  const auto end_line = [&] {
    if (!text.empty() && text.back() != '\n') text += separator_of(data) + std::string("0");
  };
  for (const uint8_t byte : file) {
    if (byte == '\r') continue;
    if (byte == '\n') end_line();
    text += static_cast<char>(byte);
  }
  end_line();
  return csv_from_text(
      text, {.header = data.header, .label = "-1", .separator = separator_of(data), .classes = 1}, path);
}

DatasetPtr open_raw(const Trained& trained, const std::string& path) {
  Bytes file = read_file(path);
  if (begins_with(file, kGzipMagic)) file = read_gzip(path, most_bytes_in(path));
  if (image_format(file) != ImageFormat::unknown) return from_picture(file, trained.spec.features, path);
  if (begins_with(file, kIdxMagic)) return from_idx(std::move(file), path);
  if (begins_with(file, kNpyMagic)) return from_npy(std::move(file), path);
  if (trained.job.data.source == "csv") return from_csv(file, trained.job.data, path);
  throw user_error(
      "{} is not a JPEG or PNG image, IDX images or a .npy array; for a model trained on CSV it may be a table",
      path);
}

}  // namespace

DatasetPtr open_inputs(const Trained& trained, const std::string& path) {
  DatasetPtr data = open_raw(trained, path);
  if (data->spec().features != trained.spec.features) {
    throw user_error("{}: the samples are {}; the model takes {}", path, data->spec().features.str(),
                     trained.spec.features.str());
  }
  return normalise(trained.job.data, std::move(data));
}

}  // namespace telar
