#include "telar/data/image.h"

#include <string_view>

#include "telar/core/error.h"

namespace telar {

ImageFormat image_format(std::span<const uint8_t> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("\xff\xd8\xff")) return ImageFormat::jpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  return ImageFormat::unknown;
}

Image decode_image(std::span<const uint8_t> file, int64_t channels, const std::string& name) {
  switch (image_format(file)) {
    case ImageFormat::jpeg: return decode_jpeg(file, channels, name);
    case ImageFormat::png: return decode_png(file, channels, name);
    case ImageFormat::unknown: break;
  }
  throw user_error("{}: is neither a JPEG nor a PNG file", name);
}

void check_image_size(uint32_t width, uint32_t height, const std::string& name) {
  constexpr uint64_t kMost = uint64_t{1} << 28U;
  // The readers' extents have 32 bits; their product fits.
  if (width == 0 || height == 0 || uint64_t{width} * height > kMost) {
    throw user_error("{}: its header says {} x {} pixels; 1 to {} pixels are supported", name, width, height,
                     kMost);
  }
}

}  // namespace telar
