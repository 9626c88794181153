#include <array>
#include <cerrno>
#include <istream>

#include "telar/core/error.h"
#include "telar/data/pictures/image.h"

namespace telar {
namespace {

/// The numbers of a file, one after another.
class HeaderReader {
 public:
  HeaderReader(std::istream& file, const char* format, const std::string& name, bool little_endian = false)
      : file_(file), format_(format), name_(name), little_endian_(little_endian) {}

  uint64_t number(size_t bytes) {
    std::array<uint8_t, 8> read{};
    file_.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(bytes));
    if (file_.bad()) throw listed_file_error(name_, EIO);
    if (!file_) throw damaged("cut off within its header");
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; ++i) number = number << 8U | read[little_endian_ ? bytes - 1 - i : i];
    return number;
  }
  void skip(uint64_t bytes) { file_.seekg(static_cast<std::streamoff>(bytes), std::ios::cur); }
  void go_to(uint64_t offset) { file_.seekg(static_cast<std::streamoff>(offset)); }
  Error damaged(const char* how) const {
    return user_error("{}: is a {} file that is damaged: {}", name_, format_, how);
  }

 private:
  std::istream& file_;
  const char* format_;
  const std::string& name_;
  bool little_endian_;
};

void check_png_header(std::istream& file, const std::string& name) {
  constexpr uint32_t kHeaderChunk = 0x49484452;  // "IHDR", always first
  file.seekg(8);
  HeaderReader reader(file, "PNG", name);
  reader.number(4);  // length
  if (reader.number(4) != kHeaderChunk) throw reader.damaged("it does not begin with its size");
  const uint64_t width = reader.number(4);
  check_image_size(width, reader.number(4), name);
}

bool is_start_of_frame(uint64_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(uint64_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

/// Goes from segment to segment until the one with the size. As libjpeg does, passes over bytes between two
/// segments.
void check_jpeg_header(std::istream& file, const std::string& name) {
  constexpr uint32_t kEndOfImage = 0xD9;
  constexpr uint32_t kStartOfScan = 0xDA;
  file.seekg(2);
  HeaderReader reader(file, "JPEG", name);
  for (;;) {
    while (reader.number(1) != 0xFF) {
    }
    uint64_t marker = 0xFF;
    while (marker == 0xFF) marker = reader.number(1);
    if (marker == 0 || stands_alone(marker)) continue;
    if (marker == kEndOfImage || marker == kStartOfScan) throw reader.damaged("its size is missing");
    const uint64_t length = reader.number(2);
    if (length < 2) throw reader.damaged("a segment of its header has no length");
    if (!is_start_of_frame(marker)) {
      reader.skip(length - 2);
      continue;
    }
    reader.number(1);  // bits of a sample
    const uint64_t height = reader.number(2);
    return check_image_size(reader.number(2), height, name);
  }
}

/// The size of the canvas; a frame that is larger makes it larger.
void check_gif_header(std::istream& file, const std::string& name) {
  file.seekg(6);
  HeaderReader reader(file, "GIF", name, true);
  const uint64_t width = reader.number(2);
  check_image_size(width, reader.number(2), name);
}

/// Of the first directory. BigTIFF has offsets and counts of 8 bytes, and longer entries.
void check_tiff_header(std::istream& file, const std::string& name) {
  constexpr uint64_t kBig = 43;
  constexpr uint64_t kWidth = 0x0100;
  constexpr uint64_t kHeight = 0x0101;
  constexpr uint64_t kShort = 3;
  file.seekg(0);
  HeaderReader reader(file, "TIFF", name, file.get() == 'I');
  reader.go_to(2);
  const bool big = reader.number(2) == kBig;
  if (big) reader.skip(4);
  const uint64_t directory = reader.number(big ? 8 : 4);
  reader.go_to(directory);
  const uint64_t entries = reader.number(big ? 8 : 2);
  uint64_t width = 0;
  uint64_t height = 0;
  for (uint64_t i = 0; i < entries && (width == 0 || height == 0); ++i) {
    reader.go_to(directory + (big ? 8 + 20 * i : 2 + 12 * i));
    const uint64_t tag = reader.number(2);
    const bool is_short = reader.number(2) == kShort;
    reader.skip(big ? 8 : 4);
    if (tag == kWidth) width = reader.number(is_short ? 2 : 4);
    if (tag == kHeight) height = reader.number(is_short ? 2 : 4);
  }
  check_image_size(width, height, name);
}

}  // namespace

void check_image_header(std::istream& file, const std::string& name) {
  std::array<uint8_t, 128> head{};  // more than the headers of BMP and WebP
  file.read(reinterpret_cast<char*>(head.data()), head.size());
  const auto read = static_cast<size_t>(file.gcount());
  if (file.bad()) throw listed_file_error(name, EIO);  // the stream does not keep the system's reason
  if (read == 0) throw user_error("{}: is empty, but a picture was expected", name);
  file.clear();
  switch (image_format({head.data(), read})) {
    case ImageFormat::jpeg: return check_jpeg_header(file, name);
    case ImageFormat::png: return check_png_header(file, name);
    case ImageFormat::webp: return check_webp_header({head.data(), read}, name);
    case ImageFormat::gif: return check_gif_header(file, name);
    case ImageFormat::bmp: return check_bmp_header({head.data(), read}, name);
    case ImageFormat::tiff: return check_tiff_header(file, name);
    case ImageFormat::unknown: break;
  }
  throw no_picture(name);
}

}  // namespace telar
