#include <csetjmp>
#include <cstdio>
// jpeglib.h needs size_t and FILE, which <cstdio> above declares.
#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

#include <array>

#include "telar/core/error.h"
#include "telar/data/image.h"

namespace telar {
namespace {

/// libjpeg's error manager with a jump target: exceptions must not pass through C code.
struct ErrorManager {
  jpeg_error_mgr base;  // must be first: libjpeg returns a pointer to it
  std::jmp_buf failed;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void fail(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  info->err->format_message(info, manager->message.data());
  std::longjmp(manager->failed, 1);
}

/// libjpeg only warns about a file that ends too early, and fills the rest of the picture with grey. Here it
/// is an error.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) fail(info);
}

/// The C part: no object with a destructor is created between setjmp and longjmp. `begin_pixels` allocates
/// the pixels; it may return null to stop.
using BeginPixels = uint8_t* (*)(void* context, uint32_t width, uint32_t height);

bool decode(std::span<const uint8_t> file, int64_t channels, ErrorManager& manager, BeginPixels begin_pixels,
            void* context) {
  jpeg_decompress_struct info;
  info.err = jpeg_std_error(&manager.base);
  manager.base.error_exit = fail;
  manager.base.emit_message = on_message;
  if (setjmp(manager.failed) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.data(), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  uint8_t* row = begin_pixels(context, info.image_width, info.image_height);
  if (row != nullptr) {
    jpeg_start_decompress(&info);
    const size_t stride = static_cast<size_t>(info.output_width) * static_cast<size_t>(channels);
    while (info.output_scanline < info.output_height) {
      jpeg_read_scanlines(&info, &row, 1);
      row += stride;
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

struct Target {
  Image image;
  std::exception_ptr error;
  const std::string* name;
};

uint8_t* begin_image(void* context, uint32_t width, uint32_t height) {
  auto* target = static_cast<Target*>(context);
  try {
    check_image_size(width, height, *target->name);
    target->image.width = width;
    target->image.height = height;
    target->image.pixels.resize(size_t{width} * height * static_cast<size_t>(target->image.channels));
    return target->image.pixels.data();
  } catch (...) {
    target->error = std::current_exception();
    return nullptr;
  }
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> file, int64_t channels, const std::string& name) {
  Target target;
  target.image.channels = channels;
  target.name = &name;
  ErrorManager manager{};
  const bool whole = decode(file, channels, manager, begin_image, &target);
  if (target.error) std::rethrow_exception(target.error);
  if (!whole)
    throw user_error("{}: is a JPEG file that is damaged or cut off: {}", name, manager.message.data());
  return std::move(target.image);
}

}  // namespace telar
