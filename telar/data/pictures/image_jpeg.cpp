#include <csetjmp>
#include <cstdio>
// jpeglib.h needs size_t and FILE, which <cstdio> above declares.
#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

#include <algorithm>
#include <array>
#include <utility>

#include "telar/core/error.h"
#include "telar/data/pictures/image.h"

namespace telar {
namespace {

/// libjpeg's error manager with a jump target: exceptions must not pass through C code.
struct ErrorManager {
  jpeg_error_mgr base;  // must be first: libjpeg returns a pointer to it
  std::jmp_buf failed;
  std::array<char, JMSG_LENGTH_MAX> message;
  int64_t rules;
};

[[noreturn]] void fail(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  info->err->format_message(info, manager->message.data());
  std::longjmp(manager->failed, 1);
}

/// Whether a warning says that a part of the picture is not that of the original: libjpeg goes on with
/// grey, or with what it finds next. The other warnings are about versions and codes that have no effect.
bool loses_data(int warning, int64_t rules) {
  switch (warning) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER: return true;
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_BOGUS_PROGRESSION: return rules > kFirstRules;
    default: return false;
  }
}

/// Whether an error says nothing about the file, but about libjpeg: 12 bits, lossless, two components.
bool is_unsupported(int error) {
  return error == JERR_BAD_PRECISION || error == JERR_SOF_UNSUPPORTED || error == JERR_ARITH_NOTIMPL ||
         error == JERR_CONVERSION_NOTIMPL;
}

void on_message(j_common_ptr info, int level) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  if (level < 0 && loses_data(info->err->msg_code, manager->rules)) fail(info);
}

/// A JPEG file while libjpeg reads it.
struct JpegReader {
  const std::string& name;
  ErrorManager manager{};
  jpeg_decompress_struct info{};
  Image image{};

  ~JpegReader() { jpeg_destroy_decompress(&info); }
};

J_COLOR_SPACE pixel_form(const jpeg_decompress_struct& info, const PictureReading& reading) {
  if (info.num_components == 4) return JCS_CMYK;
  if (reading.channels == 3) return JCS_RGB;
  // By the first rules also of a picture in colours: its stored luma, before red, green and blue are clipped.
  return reading.rules == kFirstRules || info.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
}

void allocate_pixels(JpegReader& reader) {
  const jpeg_decompress_struct& info = reader.info;
  Image& image = reader.image;
  check_image_size(info.image_width, info.image_height, reader.name);
  image.width = info.image_width;
  image.height = info.image_height;
  image.channels = info.out_color_space == JCS_CMYK ? 4 : info.out_color_space == JCS_RGB ? 3 : 1;
  image.pixels.resize(static_cast<size_t>(image.width * image.height * image.channels));
}

/// Of the first EXIF data among the saved segments. Others of this kind are XMP.
void find_jpeg_orientation(JpegReader& reader) {
  constexpr std::array<uint8_t, 4> kExifHead = {'E', 'x', 'i', 'f'};
  for (const jpeg_marker_struct* saved = reader.info.marker_list; saved != nullptr; saved = saved->next) {
    const std::span<const uint8_t> data(saved->data, saved->data_length);
    if (data.size() < kExifHead.size() || !std::equal(kExifHead.begin(), kExifHead.end(), data.begin()))
      continue;
    reader.image.orientation = exif_orientation(data);
    return;
  }
}

/// False: libjpeg has found an error. Between setjmp and longjmp no object with a destructor is created.
bool read_jpeg(JpegReader& reader, std::span<const uint8_t> file, const PictureReading& reading) {
  constexpr unsigned kMostBytes = 0xFFFF;
  jpeg_decompress_struct& info = reader.info;
  info.err = jpeg_std_error(&reader.manager.base);
  reader.manager.base.error_exit = fail;
  reader.manager.base.emit_message = on_message;
  reader.manager.rules = reading.rules;
  if (setjmp(reader.manager.failed) != 0) return false;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_save_markers(&info, JPEG_APP0 + 1, kMostBytes);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = pixel_form(info, reading);
  allocate_pixels(reader);
  find_jpeg_orientation(reader);
  jpeg_start_decompress(&info);
  const size_t stride = static_cast<size_t>(info.output_width) * static_cast<size_t>(reader.image.channels);
  while (info.output_scanline < info.output_height) {
    uint8_t* row = reader.image.pixels.data() + info.output_scanline * stride;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> file, const PictureReading& reading, const std::string& name) {
  JpegReader reader{.name = name};
  if (!read_jpeg(reader, file, reading))
    throw(is_unsupported(reader.manager.base.msg_code) ? unsupported_picture : damaged_picture)(
        name, "JPEG", reader.manager.message.data());
  return std::move(reader.image);
}

}  // namespace telar
