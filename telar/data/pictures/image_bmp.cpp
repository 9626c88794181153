#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "telar/data/pictures/image.h"

// Microsoft, "Bitmap Storage" (Windows GDI), and the header of 12 bytes of OS/2.

namespace telar {
namespace {

constexpr size_t kFileHeader = 14;  // "BM", size, and where the pixels begin

/// Little-endian; 0 behind the end.
uint32_t bmp_number(std::span<const uint8_t> bytes, uint64_t at, size_t size) {
  uint32_t number = 0;
  for (size_t i = 0; i < size && at + i < bytes.size(); ++i) number |= uint32_t{bytes[at + i]} << (8 * i);
  return number;
}

/// The values of `compression`.
enum : uint32_t { kPlain = 0, kRunsOf8 = 1, kRunsOf4 = 2, kMasks = 3, kMasksWithAlpha = 6 };

struct BmpHeader {
  uint64_t width = 0;
  uint64_t height = 0;
  bool top_down = false;
  uint32_t bits = 0;  ///< of a pixel
  uint32_t compression = kPlain;
  std::array<uint32_t, 3> masks{};  ///< red, green, blue; of 16 and 32 bits
  uint64_t colours_at = 0;
  uint64_t colours = 0;  ///< of the table
  uint64_t colour_bytes = 4;
  uint64_t pixels_at = 0;
};

Error unsupported_bmp(const std::string& name, const BmpHeader& header) {
  return unsupported_picture(name, "BMP",
                             fmt::format("{} bits a pixel, compression {}", header.bits, header.compression));
}

bool has_masks(const BmpHeader& header) {
  return header.compression == kMasks || header.compression == kMasksWithAlpha;
}

bool is_supported(const BmpHeader& header) {
  switch (header.compression) {
    case kPlain:
      return header.bits == 1 || header.bits == 4 || header.bits == 8 || header.bits == 16 ||
             header.bits == 24 || header.bits == 32;
    case kRunsOf8: return header.bits == 8 && !header.top_down;
    case kRunsOf4: return header.bits == 4 && !header.top_down;
    case kMasks:
    case kMasksWithAlpha: return header.bits == 16 || header.bits == 32;
    default: return false;
  }
}

/// Whether it is one row of bits.
bool is_mask(uint32_t mask) {
  return mask != 0 && std::has_single_bit((mask >> std::countr_zero(mask)) + 1ULL);
}

void find_masks(BmpHeader& header, std::span<const uint8_t> file, const std::string& name) {
  if (has_masks(header)) {
    for (size_t i = 0; i < 3; ++i) header.masks[i] = bmp_number(file, kFileHeader + 40 + 4 * i, 4);
  }
  if (header.masks == std::array<uint32_t, 3>{})
    header.masks = header.bits == 16 ? std::array<uint32_t, 3>{0x7c00, 0x03e0, 0x001f}
                                     : std::array<uint32_t, 3>{0xff0000, 0x00ff00, 0x0000ff};
  if (!std::ranges::all_of(header.masks, is_mask))
    throw unsupported_picture(name, "BMP", "the bits of a colour are not side by side");
}

BmpHeader read_bmp_header(std::span<const uint8_t> file, const std::string& name) {
  const uint32_t size = bmp_number(file, kFileHeader, 4);
  const std::array<uint32_t, 7> sizes = {12, 40, 52, 56, 64, 108, 124};
  if (std::ranges::find(sizes, size) == sizes.end())
    throw unsupported_picture(name, "BMP", fmt::format("a header of {} bytes", size));
  if (file.size() < kFileHeader + std::min(size, 40U))
    throw damaged_picture(name, "BMP", "cut off within its header");
  BmpHeader header;
  if (size == 12) {
    header.width = bmp_number(file, 18, 2);
    header.height = bmp_number(file, 20, 2);
    header.bits = bmp_number(file, 24, 2);
    header.colour_bytes = 3;
  } else {
    const auto height = static_cast<int32_t>(bmp_number(file, 22, 4));
    header.width = bmp_number(file, 18, 4);
    header.top_down = height < 0;
    header.height =
        height < 0 ? uint64_t{0} - static_cast<uint64_t>(int64_t{height}) : static_cast<uint64_t>(height);
    header.bits = bmp_number(file, 28, 2);
    header.compression = bmp_number(file, 30, 4);
    header.colours = bmp_number(file, 46, 4);
  }
  check_image_size(header.width, header.height, name);
  if (!is_supported(header)) throw unsupported_bmp(name, header);
  if (has_masks(header) && file.size() < kFileHeader + 52)
    throw damaged_picture(name, "BMP", "cut off within its header");
  if (header.bits == 16 || header.bits == 32) find_masks(header, file, name);
  if (header.bits > 8) header.colours = 0;
  if (header.bits <= 8 && (header.colours == 0 || header.colours > uint64_t{1} << header.bits))
    header.colours = uint64_t{1} << header.bits;
  // Behind a header of 40 bytes the masks have a place of their own.
  const uint64_t behind = kFileHeader + size + (size == 40 && has_masks(header) ? 12 : 0);
  header.colours_at = behind;
  header.pixels_at = bmp_number(file, 10, 4);
  // Some programs forget the table, or all that is in front of the pixels; others write a part of the table.
  if (header.pixels_at <= behind)
    header.pixels_at = behind + header.colours * header.colour_bytes;
  else
    header.colours = std::min(header.colours, (header.pixels_at - behind) / header.colour_bytes);
  return header;
}

/// The pixels of a file, RGB from top to bottom.
class BmpReader {
 public:
  BmpReader(std::span<const uint8_t> file, const std::string& name)
      : name_(name), file_(file), header_(read_bmp_header(file, name)) {
    if (file.size() < header_.pixels_at) throw cut_off();
    rest_ = file.subspan(header_.pixels_at);
  }

  Image read() {
    const bool runs = header_.compression == kRunsOf8 || header_.compression == kRunsOf4;
    const uint64_t pixels = header_.width * header_.height;
    const uint64_t row_bits = header_.width * header_.bits;
    // The last row of some files is not filled up to four bytes.
    if (!runs && rest_.size() < (header_.height - 1) * row_bytes() + (row_bits + 7) / 8) throw cut_off();
    Image image{static_cast<int64_t>(header_.height), static_cast<int64_t>(header_.width), 3,
                Bytes(pixels * 3)};
    const std::vector<uint8_t> numbers = runs ? unpacked_runs() : std::vector<uint8_t>();
    for (uint64_t row = 0; row < header_.height; ++row) {
      const uint64_t y = header_.top_down ? row : header_.height - 1 - row;
      uint8_t* to = image.pixels.data() + y * header_.width * 3;
      for (uint64_t x = 0; x < header_.width; ++x, to += 3) {
        if (runs)
          put_colour(numbers[row * header_.width + x], to);
        else
          put_pixel(row, x, to);
      }
    }
    return image;
  }

 private:
  Error cut_off() const { return damaged_picture(name_, "BMP", "it ends too early"); }
  uint64_t row_bytes() const { return (header_.width * header_.bits + 31) / 32 * 4; }

  void put_pixel(uint64_t row, uint64_t x, uint8_t* to) const {
    const uint64_t bit = x * header_.bits;
    const uint64_t at = row * row_bytes() + bit / 8;
    if (header_.bits <= 8) {
      const uint64_t shift = 8 - header_.bits - bit % 8;
      return put_colour((rest_[at] >> shift) & ((1U << header_.bits) - 1), to);
    }
    if (header_.bits == 24) {
      std::reverse_copy(rest_.data() + at, rest_.data() + at + 3, to);
      return;
    }
    const uint32_t pixel = bmp_number(rest_, at, header_.bits / 8);
    for (size_t i = 0; i < 3; ++i) {
      const int shift = std::countr_zero(header_.masks[i]);
      const uint64_t most = header_.masks[i] >> shift;
      to[i] = static_cast<uint8_t>((uint64_t{(pixel & header_.masks[i]) >> shift} * 255 + most / 2) / most);
    }
  }

  void put_colour(uint32_t number, uint8_t* to) const {
    if (number >= header_.colours) throw damaged_picture(name_, "BMP", "a pixel has no colour in its table");
    const uint8_t* colour = file_.data() + header_.colours_at + number * header_.colour_bytes;
    std::reverse_copy(colour, colour + 3, to);  // blue is first
  }

  uint8_t next_byte() {
    if (rest_.empty()) throw cut_off();
    const uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }

  /// The numbers of the colours, from the bottom up. Pixels that the file passes over have the first colour,
  /// and those of a run that is longer than its row are dropped.
  std::vector<uint8_t> unpacked_runs() {
    std::vector<uint8_t> numbers(header_.width * header_.height);
    const bool of4 = header_.compression == kRunsOf4;
    uint64_t x = 0;
    uint64_t y = 0;
    const auto put = [&](uint8_t number) {
      if (x < header_.width && y < header_.height) numbers[y * header_.width + x] = number;
      ++x;
    };
    const auto put_part = [&](uint8_t byte, unsigned i) {
      put(!of4 ? byte : i % 2 == 0 ? byte >> 4U : byte & 15U);
    };
    while (y + 1 < header_.height || (y < header_.height && x < header_.width)) {
      const unsigned count = next_byte();
      const uint8_t value = next_byte();
      if (count > 0) {
        for (unsigned i = 0; i < count; ++i) put_part(value, i);
      } else if (value == 0) {  // the end of a row
        x = 0;
        ++y;
      } else if (value == 1) {
        if (y + 1 < header_.height) throw damaged_picture(name_, "BMP", "it ends before its last row");
        break;
      } else if (value == 2) {
        x += next_byte();
        y += next_byte();
      } else {  // that many pixels as they are, filled up to two bytes
        uint8_t byte = 0;
        for (unsigned i = 0; i < value; ++i) {
          if (!of4 || i % 2 == 0) byte = next_byte();
          put_part(byte, i);
        }
        if ((of4 ? (value + 1U) / 2 : value) % 2 == 1) next_byte();
      }
    }
    return numbers;
  }

  const std::string& name_;
  std::span<const uint8_t> file_;
  BmpHeader header_;
  std::span<const uint8_t> rest_;
};

}  // namespace

void check_bmp_header(std::span<const uint8_t> head, const std::string& name) { read_bmp_header(head, name); }

Image decode_bmp(std::span<const uint8_t> file, const std::string& name) {
  return BmpReader(file, name).read();
}

}  // namespace telar
