#include "telar/data/arrays/idx.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/pictures/byte_images.h"

namespace telar {
namespace {

constexpr size_t kLongestHeader = 16;

uint32_t big_endian(const uint8_t* at) {
  return uint32_t{at[0]} << 24U | uint32_t{at[1]} << 16U | uint32_t{at[2]} << 8U | uint32_t{at[3]};
}

const char* kind_of(size_t rank) { return rank == 1 ? "labels" : "images"; }

void check_length(const IdxHeader& header, uint64_t bytes, const std::string& name) {
  if (bytes < header.total) {
    throw user_error(
        "{}: is cut off at offset {}: its header says {}, which needs {} bytes in all; a complete copy of the file is needed",
        name, bytes, header.shape.str(), header.total);
  }
  if (bytes > header.total) {
    throw user_error("{}: continues after offset {}, where it should end according to its header ({})", name,
                     header.total, header.shape.str());
  }
}

/// Reads only as many bytes as the header specifies, after checking that the file can hold that many.
Bytes read_idx(const std::string& path, size_t rank) {
  const IdxHeader header = parse_idx_header(read_gzip(path, kLongestHeader), rank, path);
  const uint64_t most = most_bytes_in(path);
  if (header.total > most) {
    throw user_error(
        "{}: its header (offset 4) says {} with {} bytes in all, but the file can hold at most {}", path,
        header.shape.str(), header.total, most);
  }
  return read_gzip(path, header.total + 1);
}

std::string find_part(const std::string& folder, const std::string& prefix, const std::string& kind,
                      int rank) {
  for (const char* separator : {"-", "."}) {
    for (const char* ending : {"", ".gz"}) {
      const auto name = fmt::format("{}-{}{}idx{}-ubyte{}", prefix, kind, separator, rank, ending);
      const auto path = std::filesystem::path(folder) / name;
      if (std::filesystem::exists(path)) return path.string();
    }
  }
  throw user_error(
      "{}: there is no {}-{}-idx{}-ubyte here, neither plain nor with .gz; all files of the set are needed",
      folder, prefix, kind, rank);
}

}  // namespace

IdxHeader parse_idx_header(std::span<const uint8_t> head, size_t rank, const std::string& name) {
  if (head.size() < 4) throw user_error("{}: has {} bytes, too few for an IDX file", name, head.size());
  const uint32_t magic = big_endian(head.data());
  const auto found = static_cast<size_t>(head[3]);
  if (magic >> 16U != 0) {
    throw user_error(
        "{}: is not an IDX file: it begins with {:#010x}, but {:#010x} ({}) was expected at offset 0", name,
        magic, 0x800 + rank, kind_of(rank));
  }
  if (head[2] != 0x08) {
    throw user_error("{}: holds elements of IDX type {:#04x} (offset 2); only unsigned bytes (0x08) are read",
                     name, head[2]);
  }
  if (found != rank) {
    throw user_error("{}: has {} axes (offset 3), but {} need {}{}", name, found, kind_of(rank), rank,
                     (found == 1 || found == 3) ? "; were images and labels exchanged?" : "");
  }
  const size_t offset = 4 + 4 * rank;
  if (head.size() < offset) {
    throw user_error("{}: is cut off at offset {}, within its header of {} bytes", name, head.size(), offset);
  }
  std::vector<int64_t> dims;
  for (size_t axis = 0; axis < rank; ++axis) {
    const uint32_t extent = big_endian(head.data() + 4 + 4 * axis);
    if (extent == 0) throw user_error("{}: its extent {} is 0 (offset {})", name, axis, 4 + 4 * axis);
    dims.push_back(extent);
  }
  const auto elements = product_within_int64(dims);
  Shape shape(std::move(dims));
  if (!elements) {
    throw user_error("{}: its header (offset 4) says {}, more elements than any file can hold", name,
                     shape.str());
  }
  return {std::move(shape), offset, static_cast<uint64_t>(*elements) + offset};
}

DatasetPtr idx_from_bytes(Bytes images, Bytes labels, int64_t classes, const std::string& images_name,
                          const std::string& labels_name) {
  const IdxHeader image_header = parse_idx_header(images, 3, images_name);
  const IdxHeader label_header = parse_idx_header(labels, 1, labels_name);
  check_length(image_header, images.size(), images_name);
  check_length(label_header, labels.size(), labels_name);
  const int64_t count = image_header.shape[0];
  if (label_header.shape[0] != count) {
    throw user_error("{} has {} images, but {} has {} labels (offset 4 of each); they must belong to one set",
                     images_name, count, labels_name, label_header.shape[0]);
  }
  const auto begin = labels.begin() + static_cast<std::ptrdiff_t>(label_header.offset);
  const auto bad = std::find_if(begin, labels.end(), [classes](uint8_t label) { return label >= classes; });
  if (bad != labels.end()) {
    throw user_error("{}: label {} at offset {} is outside the {} classes 0 … {}", labels_name, *bad,
                     bad - labels.begin(), classes, classes - 1);
  }
  SampleSpec spec;
  spec.features = {1, image_header.shape[1], image_header.shape[2]};
  spec.classes = classes;
  const auto stride = static_cast<size_t>(spec.features.elements());
  return byte_images(std::move(spec), std::move(images), {image_header.offset, stride},
                     {begin, labels.end()});
}

DatasetPtr open_idx(const std::string& images_path, const std::string& labels_path, int64_t classes) {
  return idx_from_bytes(read_idx(images_path, 3), read_idx(labels_path, 1), classes, images_path,
                        labels_path);
}

DatasetPtr open_idx_folder(const std::string& folder, Split split, int64_t classes) {
  if (!std::filesystem::is_directory(folder)) throw user_error("{}: there is no such folder", folder);
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::string images = find_part(folder, prefix, "images", 3);
  return open_idx(images, find_part(folder, prefix, "labels", 1), classes);
}

}  // namespace telar
