#include "telar/data/pictures/image.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/pictures/pixel_loops.h"

namespace telar {
namespace {

/// A picture of the same form, without its pixels.
Image same_form(const Image& image, int64_t channels) {
  return {image.height, image.width, channels,
          Bytes(static_cast<size_t>(image.height * image.width * channels)), image.orientation};
}

/// Each ink takes its part of the light that black leaves.
Image rgb_of_cmyk(const Image& image) {
  Image result = same_form(image, 3);
  uint8_t* rgb = result.pixels.data();
  for (const uint8_t* cmyk = image.pixels.data(); cmyk != image.pixels.data() + image.pixels.size();
       cmyk += 4)
    for (int ink = 0; ink < 3; ++ink) *rgb++ = static_cast<uint8_t>((cmyk[ink] * cmyk[3] + 127) / 255);
  return result;
}

Image grey_of_rgb(const Image& image) {
  Image result = same_form(image, 1);
  luma_of_rgb(image.pixels, result.pixels);
  return result;
}

/// The picture as it is to be seen. Rows and columns of the result follow from its orientation: from which
/// corner of the stored one they begin, and whether its columns become rows.
Image upright(Image image) {
  const int orientation = std::exchange(image.orientation, 1);
  if (orientation == 1) return image;
  const bool swapped = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image result{swapped ? image.width : image.height, swapped ? image.height : image.width, image.channels,
               Bytes(image.pixels.size())};
  const int64_t across = image.channels * (from_right ? -1 : 1);
  const int64_t down = image.channels * image.width * (from_below ? -1 : 1);
  const uint8_t* corner = image.pixels.data() + (from_right ? image.channels * (image.width - 1) : 0) +
                          (from_below ? image.channels * image.width * (image.height - 1) : 0);
  uint8_t* out = result.pixels.data();
  for (int64_t y = 0; y < result.height; ++y) {
    for (int64_t x = 0; x < result.width; ++x) {
      const uint8_t* pixel = corner + y * (swapped ? across : down) + x * (swapped ? down : across);
      out = std::copy_n(pixel, image.channels, out);
    }
  }
  return result;
}

Image finished(Image image, const PictureReading& reading) {
  if (image.channels == 4) image = rgb_of_cmyk(image);
  if (image.channels > reading.channels) image = grey_of_rgb(image);
  return reading.upright && reading.rules > kFirstRules ? upright(std::move(image)) : image;
}

}  // namespace

ImageFormat image_format(std::span<const uint8_t> head) {
  using std::string_view_literals::operator""sv;
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const auto begins = [&](std::string_view magic) { return text.starts_with(magic); };
  if (begins("\xff\xd8\xff"sv)) return ImageFormat::jpeg;
  if (begins("\x89PNG\r\n\x1a\n"sv)) return ImageFormat::png;
  if (begins("RIFF"sv) && text.substr(0, 12).ends_with("WEBP"sv)) return ImageFormat::webp;
  if (begins("GIF87a"sv) || begins("GIF89a"sv)) return ImageFormat::gif;
  if (begins("II*\0"sv) || begins("MM\0*"sv) || begins("II+\0"sv) || begins("MM\0+"sv))
    return ImageFormat::tiff;
  // A table may begin with BM, but has no zeros where a BMP file has the size of its header.
  if (begins("BM"sv) && text.size() > 17 && text.substr(15, 3) == "\0\0\0"sv) return ImageFormat::bmp;
  return ImageFormat::unknown;
}

Image decode_image(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name) {
  switch (image_format(file)) {
    case ImageFormat::jpeg: return finished(decode_jpeg(file, reading, name), reading);
    case ImageFormat::png:
      return reading.rules == kFirstRules ? decode_png_in_linear_light(file, reading.channels, name)
                                          : finished(decode_png(file, reading, name), reading);
    case ImageFormat::webp: return finished(decode_webp(file, name), reading);
    case ImageFormat::gif: return finished(decode_gif(file, name), reading);
    case ImageFormat::bmp: return finished(decode_bmp(file, name), reading);
    case ImageFormat::tiff: return finished(decode_tiff(file, name), reading);
    case ImageFormat::unknown: break;
  }
  throw no_picture(name);
}

Error no_picture(const std::string& name) {
  return user_error("{}: is no JPEG, PNG, WebP, GIF, BMP or TIFF file", name);
}

Error damaged_picture(const std::string& name, const char* format, std::string_view how) {
  return user_error("{}: is a {} file that is damaged or cut off: {}", name, format, how);
}

Error unsupported_picture(const std::string& name, const char* format, std::string_view why) {
  return user_error("{}: is a {} file of a kind that cannot be read: {}", name, format, why);
}

void check_image_size(uint64_t width, uint64_t height, const std::string& name) {
  constexpr uint64_t kMost = uint64_t{1} << 28U;
  if (width == 0 || height == 0 || width > kMost || height > kMost || width * height > kMost) {
    throw user_error("{}: its header says {} x {} pixels; 1 to {} pixels are supported", name, width, height,
                     kMost);
  }
}

}  // namespace telar
