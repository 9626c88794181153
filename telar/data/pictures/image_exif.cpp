#include <algorithm>
#include <string_view>

#include "telar/data/pictures/image.h"
#include "telar/data/pictures/image_tags.h"

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

  uint64_t number(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return 0;
    uint64_t number = 0;
    for (uint64_t i = 0; i < size; ++i) number = number << 8U | bytes_[little_ ? at + size - 1 - i : at + i];
    return number;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool little_;
};

}  // namespace

std::optional<uint32_t> tiff_tag(std::span<const uint8_t> file, uint32_t tag) {
  constexpr uint64_t kClassic = 42;
  constexpr uint64_t kBig = 43;
  constexpr uint64_t kShort = 3;
  if (!begins_with(file, "II") && !begins_with(file, "MM")) return {};
  const Tiff tiff(file);
  const bool big = tiff.number(2, 2) == kBig;
  if (!big && tiff.number(2, 2) != kClassic) return {};
  const uint64_t room = big ? 8 : 4;  // of an offset, a count or a value
  const uint64_t directory = tiff.number(room, room);
  const uint64_t entries = std::min<uint64_t>(tiff.number(directory, big ? 8 : 2), file.size());
  for (uint64_t entry = 0; entry < entries; ++entry) {  // tag, type, count, and the value or where it is
    const uint64_t at = directory + (big ? 8 : 2) + entry * (4 + 2 * room);
    if (tiff.number(at, 2) == tag)
      return static_cast<uint32_t>(tiff.number(at + 4 + room, tiff.number(at + 2, 2) == kShort ? 2 : 4));
  }
  return {};
}

int exif_orientation(std::span<const uint8_t> exif) {
  constexpr uint32_t kOrientation = 0x0112;
  if (begins_with(exif, kExif)) exif = exif.subspan(kExif.size());
  const uint32_t value = tiff_tag(exif, kOrientation).value_or(1);
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
}

}  // namespace telar
