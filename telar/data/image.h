#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "telar/data/files.h"

namespace telar {

/// A decoded picture: rows from the top, `channels` bytes for each pixel (1 grey, 3 RGB).
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;
  Bytes pixels;
};

/// What the first bytes of a file say that it is.
enum class ImageFormat : uint8_t { jpeg, png, unknown };
ImageFormat image_format(std::span<const uint8_t> head);

/// Decodes a JPEG or PNG file, converted to grey (`channels` 1) or RGB (3); transparency lies over black.
/// Throws Error (user): neither of the two, damaged or cut off, more than 2^28 pixels.
Image decode_image(std::span<const uint8_t> file, int64_t channels, const std::string& name);
Image decode_jpeg(std::span<const uint8_t> file, int64_t channels, const std::string& name);
Image decode_png(std::span<const uint8_t> file, int64_t channels, const std::string& name);

/// Throws Error (user) when a picture of this size is empty or too large to be one.
void check_image_size(uint64_t width, uint64_t height, const std::string& name);

}  // namespace telar
