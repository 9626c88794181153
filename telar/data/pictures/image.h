#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

#include "telar/core/error.h"
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
enum class ImageFormat : uint8_t { jpeg, png, webp, gif, bmp, tiff, unknown };
ImageFormat image_format(std::span<const uint8_t> head);

/// Decodes a picture file, of an animation or of several pages the first one. Its numbers are taken as they
/// are stored: 16 bits are scaled linearly, gAMA and profiles are ignored, alpha is dropped, and grey is
/// ITU-R 601 luma. Throws Error (user): none of the formats, of a kind that cannot be read, damaged or cut
/// off, more than 2^28 pixels.
Image decode_image(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name);

/// The decoders: grey files as grey or RGB, others as RGB or CMYK, not turned.
Image decode_jpeg(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name);
Image decode_png(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name);
Image decode_webp(std::span<const uint8_t> file, const std::string& name);
Image decode_gif(std::span<const uint8_t> file, const std::string& name);
Image decode_bmp(std::span<const uint8_t> file, const std::string& name);
Image decode_tiff(std::span<const uint8_t> file, const std::string& name);
/// A PNG file by the first rules.
Image decode_png_in_linear_light(std::span<const uint8_t> file, int64_t channels, const std::string& name);

/// The orientation in EXIF data, which are a TIFF file, perhaps behind "Exif"; 1 if there is none.
int exif_orientation(std::span<const uint8_t> exif);

/// Reads the header of a picture file, up to its size in pixels. Throws Error (user): none of the formats,
/// empty, cut off within the header, or a size that is not valid; Error (run): the stream cannot be read.
void check_image_header(std::istream& file, const std::string& name);
/// The same of the first bytes of a file.
void check_webp_header(std::span<const uint8_t> head, const std::string& name);
void check_bmp_header(std::span<const uint8_t> head, const std::string& name);

/// Throws Error (user) when the picture is empty or too large to be valid.
void check_image_size(uint64_t width, uint64_t height, const std::string& name);

/// The error of a file that is none of the formats.
Error no_picture(const std::string& name);
/// "NAME: is a GIF file that is damaged or cut off: …".
Error damaged_picture(const std::string& name, const char* format, std::string_view how);
/// "NAME: is a GIF file of a kind that cannot be read: …".
Error unsupported_picture(const std::string& name, const char* format, std::string_view why);

}  // namespace telar
