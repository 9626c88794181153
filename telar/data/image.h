#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>

#include "telar/data/files.h"
#include "telar/data/reading_rules.h"

namespace telar {

/// How a picture is read.
struct PictureReading {
  int64_t channels = 3;  ///< 1 grey, 3 RGB
  int64_t rules = kNewestRules;
  bool upright = true;  ///< turned as its EXIF orientation says; not by the first rules
};

/// A decoded picture: rows from top to bottom, `channels` bytes per pixel (1 grey, 3 RGB, and inside the
/// decoders 4: CMYK as Adobe stores it, 255 without ink).
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 3;
  Bytes pixels;
  int orientation = 1;  ///< EXIF's 1 … 8; 1: the first row is the top, the first column the left
};

/// The format of a file, recognised by its first bytes.
enum class ImageFormat : uint8_t { jpeg, png, unknown };
ImageFormat image_format(std::span<const uint8_t> head);

/// Decodes a JPEG or PNG file. Its numbers are taken as they are stored: 16 bits are scaled linearly,
/// gAMA and profiles are ignored, alpha is dropped, and grey is ITU-R 601 luma. Throws Error (user):
/// neither of the two, damaged or cut off, more than 2^28 pixels.
Image decode_image(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name);

/// The decoders: grey files as grey or RGB, others as RGB or CMYK, not turned.
Image decode_jpeg(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name);
Image decode_png(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name);
/// A PNG file by the first rules.
Image decode_png_in_linear_light(std::span<const uint8_t> file, int64_t channels, const std::string& name);

/// The orientation in EXIF data, which are a TIFF file, perhaps behind "Exif"; 1 if there is none.
int exif_orientation(std::span<const uint8_t> exif);

/// Reads the header of a JPEG or PNG file, up to its size in pixels. Throws Error (user): neither of the
/// two, empty, cut off within the header, or a size that is not valid; Error (run): the stream cannot be
/// read.
void check_image_header(std::istream& file, const std::string& name);

/// Throws Error (user) when the picture is empty or too large to be valid.
void check_image_size(uint32_t width, uint32_t height, const std::string& name);

}  // namespace telar
