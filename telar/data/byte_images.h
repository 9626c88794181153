#pragma once

#include "telar/data/dataset.h"
#include "telar/data/files.h"

namespace telar {

/// Where the samples of a ByteImages lie in its storage.
struct ByteLayout {
  size_t offset = 0;  ///< of the first sample's features
  size_t stride = 0;  ///< from one sample's features to the next one's
};

/// Samples kept as bytes in memory (a quarter of f32) and presented as f32: byte × scale. IDX, CIFAR and u8
/// npy files are this. `spec.features` and `spec.classes` must be set; labels.size() is the number of
/// samples.
DatasetPtr byte_images(SampleSpec spec, Bytes storage, ByteLayout layout, std::vector<int32_t> labels,
                       float scale = 1.0F / 255.0F);

}  // namespace telar
