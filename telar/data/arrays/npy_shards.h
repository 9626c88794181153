#pragma once

#include <cstdint>
#include <string>

#include "telar/data/dataset.h"

namespace telar {

/// A dataset from several pairs of .npy files (npy.h), in the order of their names. `features` and `labels`
/// are patterns (file_pattern.h); files with the same text in the place of the `*` belong together. The
/// arrays need not fit in memory: opening reads the headers only, and a file is opened again when one of its
/// samples is read.
///
/// Throws Error (user): as parse_npy() and npy_spec(); files of features without labels and the reverse;
/// arrays of different forms. read() throws Error (user) for values as read_npy_features() and
/// read_npy_labels() do, and Error (run) if a file cannot be read any more.
DatasetPtr open_npy_shards(const std::string& features, const std::string& labels, int64_t classes);

}  // namespace telar
