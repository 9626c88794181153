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
};

/// Parses and validates the header; `bytes` is the whole file. Throws Error (user) with the offset: not npy,
/// cut off, big-endian, Fortran order, unsupported element type, no axis or no samples, a shape that does not
/// match the file's size.
NpyHeader parse_npy(std::span<const uint8_t> bytes, const std::string& name);

/// A dataset from two arrays with one sample per entry of axis 0. Features of type f4, f8 and u1 are read as
/// f32 without scaling, i4 and i8 as i32 (token ids). Labels with `classes` > 0: integers, [N] or [N, 1],
/// each 0 … classes-1. Labels with `classes` 0 (regression): f4 or f8 targets of any shape [N, …]. Throws
/// Error (user): as parse_npy; different numbers of samples; NaN or infinite values; a label outside the
/// classes; an i8 that does not fit in i32.
DatasetPtr npy_from_bytes(Bytes features, const Bytes& labels, int64_t classes,
                          const std::string& features_name, const std::string& labels_name);

/// The same, from two files.
DatasetPtr open_npy(const std::string& features_path, const std::string& labels_path, int64_t classes);

}  // namespace telar
