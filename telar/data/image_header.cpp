#include <array>
#include <cerrno>
#include <istream>

#include "telar/core/error.h"
#include "telar/data/image.h"

namespace telar {
namespace {

uint32_t big_endian_number(std::span<const uint8_t> bytes) {
  uint32_t number = 0;
  for (const uint8_t byte : bytes) number = number << 8U | byte;
  return number;
}

/// The bytes of a file, one after another.
class HeaderReader {
 public:
  HeaderReader(std::istream& file, const char* format, const std::string& name)
      : file_(file), format_(format), name_(name) {}

  uint32_t number(size_t bytes) {
    std::array<uint8_t, 4> read{};
    file_.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(bytes));
    if (file_.bad()) throw listed_file_error(name_, EIO);
    if (!file_) throw damaged("cut off within its header");
    return big_endian_number({read.data(), bytes});
  }
  void skip(uint32_t bytes) { file_.seekg(bytes, std::ios::cur); }
  Error damaged(const char* how) const {
    return user_error("{}: is a {} file that is damaged: {}", name_, format_, how);
  }

 private:
  std::istream& file_;
  const char* format_;
  const std::string& name_;
};

void check_png_header(std::istream& file, const std::string& name) {
  constexpr uint32_t kHeaderChunk = 0x49484452;  // "IHDR", always first
  file.seekg(8);
  HeaderReader reader(file, "PNG", name);
  reader.number(4);  // length
  if (reader.number(4) != kHeaderChunk) throw reader.damaged("it does not begin with its size");
  const uint32_t width = reader.number(4);
  check_image_size(width, reader.number(4), name);
}

bool is_start_of_frame(uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

bool stands_alone(uint32_t marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

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
    uint32_t marker = 0xFF;
    while (marker == 0xFF) marker = reader.number(1);
    if (marker == 0 || stands_alone(marker)) continue;
    if (marker == kEndOfImage || marker == kStartOfScan) throw reader.damaged("its size is missing");
    const uint32_t length = reader.number(2);
    if (length < 2) throw reader.damaged("a segment of its header has no length");
    if (!is_start_of_frame(marker)) {
      reader.skip(length - 2);
      continue;
    }
    reader.number(1);  // bits of a sample
    const uint32_t height = reader.number(2);
    return check_image_size(reader.number(2), height, name);
  }
}

}  // namespace

void check_image_header(std::istream& file, const std::string& name) {
  std::array<uint8_t, 8> head{};
  file.read(reinterpret_cast<char*>(head.data()), head.size());
  const auto read = static_cast<size_t>(file.gcount());
  if (file.bad()) throw listed_file_error(name, EIO);  // the stream does not keep the system's reason
  if (read == 0) throw user_error("{}: is empty, but a picture was expected", name);
  file.clear();
  switch (image_format({head.data(), read})) {
    case ImageFormat::jpeg: return check_jpeg_header(file, name);
    case ImageFormat::png: return check_png_header(file, name);
    case ImageFormat::unknown: break;
  }
  throw user_error("{}: is neither a JPEG nor a PNG file", name);
}

}  // namespace telar
