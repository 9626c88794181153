#pragma once

#include "telar/data/dataset.h"

namespace telar {

struct AugmentOptions {
  /// pixels of zeros on each side, from which a window of the image's own size is cut at random
  int64_t padding = 0;
  bool flip = false;  ///< mirror left and right with probability 1/2
};

/// Random crops and flips of images [C, H, W] f32. The augmentation of a sample depends only on (seed, epoch,
/// sample index). Put it before `normalised`, so that the padding is black, and after `cached`. Throws Error
/// (user) for features that are not images, or padding outside 0 … the image's size.
DatasetPtr augmented(DatasetPtr data, const AugmentOptions& options);

}  // namespace telar
