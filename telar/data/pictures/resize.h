#pragma once

#include <cstdint>
#include <span>

#include "telar/data/pictures/image.h"

namespace telar {

/// Writes a picture as planes [channels, height, width] f32 in 0 … 1, resized bilinearly. Pixel centres are
/// at +0.5 (PyTorch's `align_corners=False`). When shrinking, the triangle filter grows with the factor so
/// that no pixel is skipped (`antialias=True`, as in Pillow). `planes` has channels × height × width
/// elements.
void resize_to_planes(const Image& image, int64_t height, int64_t width, std::span<float> planes);

}  // namespace telar
