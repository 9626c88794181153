#pragma once

#include <string>

#include "telar/data/dataset.h"

namespace telar {

struct ImageFolderOptions {
  int64_t height = 224;  ///< every picture is resized to this, without regard to its proportions
  int64_t width = 224;
  int64_t channels = 3;  ///< 3 RGB, 1 grey
};

/// Pictures (.jpg, .jpeg, .png; told by their content) in one sub-folder for each class; classes are numbered in the
/// order of the folders' names, samples in the order of their paths. features: [channels, height, width] f32 in
/// 0 … 1, decoded when read (wrap it in `cached`). Hidden files and files with other endings are passed over.
/// Throws Error (user): no such folder, no class folders, a class without pictures, a file that is empty or neither
/// JPEG nor PNG, options out of range; and from read() for a picture that is damaged further in.
DatasetPtr open_image_folder(const std::string& folder, const ImageFolderOptions& options);

}  // namespace telar
