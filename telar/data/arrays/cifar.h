#pragma once

#include <string>

#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar {

/// Which labels to read, and of which CIFAR set.
enum class CifarLabels : uint8_t {
  ten,    ///< CIFAR-10
  fine,   ///< CIFAR-100's 100 classes
  coarse  ///< CIFAR-100's 20 superclasses
};

/// A dataset from the records of one or more CIFAR binary files (label bytes, then 3 × 32 × 32 pixels).
/// features: [3, 32, 32] f32 in 0 … 1. Throws Error (user) with file and offset for an empty file, an
/// incomplete record, or a label outside the classes.
DatasetPtr cifar_from_bytes(const std::vector<Bytes>& files, const std::vector<std::string>& names,
                            CifarLabels labels);

/// Opens the published binary version: `data_batch_1.bin` … `test_batch.bin`, or `train.bin` and `test.bin`,
/// in `folder` or in the sub-folder that the archive creates.
DatasetPtr open_cifar(const std::string& folder, Split split, CifarLabels labels);

}  // namespace telar
