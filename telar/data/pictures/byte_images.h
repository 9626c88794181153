#pragma once

#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar {

/// Location of the samples in the storage of byte_images().
struct ByteLayout {
  size_t offset = 0;  ///< of the first sample's features
  size_t stride = 0;  ///< distance from one sample's features to the next one's
};

/// Samples stored as bytes in memory (a quarter of f32) and read as f32: byte × scale. Used for IDX, CIFAR
/// and u1 npy files. `spec.features` and `spec.classes` must be set; labels.size() is the number of samples.
DatasetPtr byte_images(SampleSpec spec, Bytes storage, ByteLayout layout, std::vector<int32_t> labels,
                       float scale = 1.0F / 255.0F);

}  // namespace telar
