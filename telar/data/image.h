#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

#include "telar/data/files.h"

namespace telar {

/// A decoded picture: rows from top to bottom, `channels` bytes per pixel (1 grey, 3 RGB).
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;
  Bytes pixels;
};

/// The format of a file, recognised by its first bytes.
enum class ImageFormat : uint8_t { jpeg, png, unknown };
ImageFormat image_format(std::span<const uint8_t> head);

/// Decodes a JPEG or PNG file, converted to grey (`channels` 1) or RGB (3); transparent pixels are blended
/// with black. Throws Error (user): neither of the two, damaged or cut off, more than 2^28 pixels.
Image decode_image(std::span<const uint8_t> file, int64_t channels, const std::string& name);
Image decode_jpeg(std::span<const uint8_t> file, int64_t channels, const std::string& name);
Image decode_png(std::span<const uint8_t> file, int64_t channels, const std::string& name);

/// Reads the header of a JPEG or PNG file, up to its size in pixels. Throws Error (user): neither of the two,
/// empty, cut off within the header, or a size that is not valid; Error (run): the stream cannot be read.
void check_image_header(std::istream& file, const std::string& name);

/// Throws Error (user) when the picture is empty or too large to be valid.
void check_image_size(uint32_t width, uint32_t height, const std::string& name);

}  // namespace telar
