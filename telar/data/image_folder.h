#pragma once

#include <string>

#include "telar/data/dataset.h"

namespace telar {

struct ImageFolderOptions {
  int64_t height = 224;  ///< every picture is resized to this; its aspect ratio is not kept
  int64_t width = 224;
  int64_t channels = 3;  ///< 3 RGB, 1 grey
};

/// Pictures (.jpg, .jpeg, .png; the format is recognised by content) in one sub-folder per class. Classes are
/// numbered in the order of the folders' names, samples in the order of their paths.
/// features: [channels, height, width] f32 in 0 … 1, decoded when read (wrap the dataset in `cached`). Hidden
/// files and files with other extensions are skipped. Throws Error (user): no such folder, no class folders,
/// a class without pictures, a file that is empty or neither JPEG nor PNG, options out of range; read()
/// throws it for a picture with damage beyond its first bytes.
DatasetPtr open_image_folder(const std::string& folder, const ImageFolderOptions& options);

}  // namespace telar
