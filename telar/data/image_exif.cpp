#include <algorithm>
#include <string_view>

#include "telar/data/image.h"

namespace telar {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);

bool begins_with(std::span<const uint8_t> bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::ranges::equal(bytes.first(text.size()), text,
                            [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); });
}

/// The numbers of a TIFF file; 0 behind its end.
class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes) : bytes_(bytes), little_(begins_with(bytes, "II")) {}

  uint32_t number(size_t at, size_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    uint32_t number = 0;
    for (size_t i = 0; i < size; ++i) number = number << 8U | bytes_[little_ ? at + size - 1 - i : at + i];
    return number;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::span<const uint8_t> exif) {
  constexpr uint32_t kOrientation = 0x0112;
  constexpr uint32_t kShort = 3;
  constexpr size_t kEntryBytes = 12;  // tag, type, count, and the value or where it is
  if (begins_with(exif, kExif)) exif = exif.subspan(kExif.size());
  if (!begins_with(exif, {"II*\0", 4}) && !begins_with(exif, {"MM\0*", 4})) return 1;
  const Tiff tiff(exif);
  const size_t directory = tiff.number(4, 4);
  const size_t entries = tiff.number(directory, 2);
  for (size_t entry = 0; entry < entries; ++entry) {
    const size_t at = directory + 2 + entry * kEntryBytes;
    if (tiff.number(at, 2) != kOrientation) continue;
    const uint32_t value = tiff.number(at + 8, tiff.number(at + 2, 2) == kShort ? 2 : 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace telar
