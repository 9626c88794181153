#pragma once

#include <string>

#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar {

/// The header of an IDX file (MNIST's format). Only elements of type unsigned byte are supported; published
/// files have no other.
struct IdxHeader {
  Shape shape;         ///< [N, H, W] of images, [N] of labels
  size_t offset = 0;   ///< of the first element
  uint64_t total = 0;  ///< bytes of the whole file
};

/// Parses the header from a file's first bytes; `rank` is 3 for images, 1 for labels; `name` is for messages.
/// Throws Error (user): not IDX, wrong rank or element type, an extent of 0, cut off.
IdxHeader parse_idx_header(std::span<const uint8_t> head, size_t rank, const std::string& name);

/// A dataset from the decompressed bytes of an image file and a label file. features: [1, H, W] f32 in 0 … 1.
/// Throws Error (user) with file and offset: bad header, a file shorter or longer than its header says,
/// different numbers of images and labels, a label outside 0 … classes-1.
DatasetPtr idx_from_bytes(Bytes images, Bytes labels, int64_t classes, const std::string& images_name,
                          const std::string& labels_name);

/// The same, from two files, plain or gzip.
DatasetPtr open_idx(const std::string& images_path, const std::string& labels_path, int64_t classes = 10);

/// MNIST, Fashion-MNIST and similar sets: a folder with the four files under their usual names
/// (`train-images-idx3-ubyte`, `t10k-labels-idx1-ubyte` …), plain or `.gz`.
DatasetPtr open_idx_folder(const std::string& folder, Split split, int64_t classes = 10);

}  // namespace telar
