#include <png.h>

#include <memory>

#include "telar/core/error.h"
#include "telar/data/image.h"

namespace telar {

Image decode_png(std::span<const uint8_t> file, int64_t channels, const std::string& name) {
  struct Free {
    void operator()(png_image* png) const { png_image_free(png); }
  };
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, Free> guard(&png);
  const auto fail = [&] {
    return user_error("{}: is a PNG file that is damaged or cut off: {}", name, png.message);
  };
  if (png_image_begin_read_from_memory(&png, file.data(), file.size()) == 0) throw fail();
  check_image_size(png.width, png.height, name);
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Image image{png.height, png.width, channels, Bytes(PNG_IMAGE_SIZE(png))};
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) == 0) throw fail();
  return image;
}

}  // namespace telar
