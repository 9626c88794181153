#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/pictures/image.h"

namespace telar {
namespace {

/// A PNG file while libpng reads it. Exceptions must not pass through C code: libpng's errors jump.
struct PngReader {
  std::span<const uint8_t> rest;
  const std::string& name;
  bool grey;  ///< grey files stay grey
  std::array<char, 256> message{};
  png_structp png = nullptr;
  png_infop info = nullptr;
  Image image{};

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp text) {
  auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
  const std::string_view message(text);
  message.copy(reader->message.data(), reader->message.size() - 1);
  png_longjmp(png, 1);
}

void on_png_warning(png_structp /*png*/, png_const_charp /*text*/) {}

void next_png_bytes(png_structp png, png_bytep to, size_t count) {
  auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader->rest.size()) png_error(png, "it ends too early");
  std::copy_n(reader->rest.data(), count, to);
  reader->rest = reader->rest.subspan(count);
}

/// Eight bits a sample, grey or RGB, without alpha. Colours and transparency that are not those of pixels
/// (gAMA, sRGB, iCCP, tRNS, bKGD) have no effect.
void set_pixel_form(const PngReader& reader) {
  png_structp png = reader.png;
  const int colours = png_get_color_type(png, reader.info);
  png_set_scale_16(png);
  if (colours == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (colours == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
  if (!reader.grey) png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
}

void allocate_pixels(PngReader& reader) {
  const uint32_t width = png_get_image_width(reader.png, reader.info);
  const uint32_t height = png_get_image_height(reader.png, reader.info);
  check_image_size(width, height, reader.name);
  Image& image = reader.image;
  image.width = width;
  image.height = height;
  image.channels = png_get_channels(reader.png, reader.info);
  image.pixels.resize(png_get_rowbytes(reader.png, reader.info) * height);
}

void find_png_orientation(PngReader& reader) {
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (png_get_eXIf_1(reader.png, reader.info, &size, &exif) != 0)
    reader.image.orientation = exif_orientation({exif, size});
}

/// False: libpng has found an error. Between setjmp and longjmp no object with a destructor is created.
bool read_png(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_read_fn(reader.png, &reader, next_png_bytes);
  png_read_info(reader.png, reader.info);
  set_pixel_form(reader);
  const int passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  allocate_pixels(reader);
  const size_t stride = reader.image.pixels.size() / static_cast<size_t>(reader.image.height);
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < reader.image.height; ++y)
      png_read_row(reader.png, reader.image.pixels.data() + static_cast<size_t>(y) * stride, nullptr);
  }
  png_read_end(reader.png, reader.info);
  find_png_orientation(reader);
  return true;
}

}  // namespace

Image decode_png(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name) {
  PngReader reader{.rest = file, .name = name, .grey = reading.channels == 1};
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_png_error, on_png_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) throw std::bad_alloc();
  if (!read_png(reader)) throw damaged_picture(name, "PNG", reader.message.data());
  return std::move(reader.image);
}

Image decode_png_in_linear_light(std::span<const uint8_t> file, int64_t channels, const std::string& name) {
  struct Free {
    void operator()(png_image* png) const { png_image_free(png); }
  };
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, Free> guard(&png);
  if (png_image_begin_read_from_memory(&png, file.data(), file.size()) == 0)
    throw damaged_picture(name, "PNG", png.message);
  check_image_size(png.width, png.height, name);
  png.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  Image image{png.height, png.width, channels, Bytes(PNG_IMAGE_SIZE(png))};
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr) == 0)
    throw damaged_picture(name, "PNG", png.message);
  return image;
}

}  // namespace telar
