#pragma once

#include <string>

#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar {

/// The header of a NumPy `.npy` file (format versions 1, 2 and 3).
struct NpyHeader {
  std::string type;   ///< "f4", "f8", "u1", "i4" or "i8"
  Shape shape;        ///< C order, [N, …]
  size_t offset = 0;  ///< of the first element

  size_t element_bytes() const { return static_cast<size_t>(type[1] - '0'); }
};

/// Parses and validates the header; `start`: the first bytes of a file of `file_bytes`, at least
/// kNpyHeaderBytes or all. Throws Error (user) with the offset: not npy, cut off, big-endian, Fortran order,
/// unsupported element type, no axis or no samples, a shape that does not match the file's size.
NpyHeader parse_npy(std::span<const uint8_t> start, uint64_t file_bytes, const std::string& name);
inline constexpr size_t kNpyHeaderBytes = 1 << 16;  ///< the most that a header may have

/// The same, of a whole file.
inline NpyHeader parse_npy(std::span<const uint8_t> bytes, const std::string& name) {
  return parse_npy(bytes, bytes.size(), name);
}

/// An array in a file.
struct NpyArray {
  std::string file;  ///< for messages
  NpyHeader header;
};

/// The form of the samples of two arrays with one sample per entry of axis 0. Features of type f4 and u1 are
/// read as f32 without scaling, f8 as wide, i4 and i8 as i32 (token ids). Labels with `classes` > 0 are
/// integers, [N] or [N, 1], each 0 … classes-1. Labels with `classes` 0 (regression): f4 or f8 targets of any
/// shape [N, …]. Throws Error (user): different numbers of samples, labels of another form.
SampleSpec npy_spec(const NpyArray& features, const NpyArray& labels, int64_t classes);

/// Consecutive elements of an array.
struct NpyElements {
  const NpyArray& array;
  size_t offset = 0;  ///< in the file, of the first one
  std::span<const uint8_t> bytes;
};

/// Writes elements as features or labels of samples. Throws Error (user) with the place: NaN or infinite
/// values; a label outside the classes; an i8 that does not fit in i32.
void read_npy_features(const NpyElements& elements, std::span<std::byte> features);
void read_npy_labels(const NpyElements& elements, int64_t classes, std::span<std::byte> labels);

/// A dataset from two arrays. With classes, features of type u1 are multiplied by `byte_scale`. Throws Error
/// (user): as the functions above.
DatasetPtr npy_from_bytes(Bytes features, const Bytes& labels, int64_t classes,
                          const std::string& features_name, const std::string& labels_name,
                          float byte_scale = 1.0F);

/// The same, from two files.
DatasetPtr open_npy(const std::string& features_path, const std::string& labels_path, int64_t classes);

/// A sentence on targets of a regression that f32 cannot tell apart (target_warning), or "".
std::string npy_target_warning(const Bytes& labels, const std::string& name);

}  // namespace telar
