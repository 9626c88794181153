#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/temp_folder.h"
#include "support/pictures.h"

namespace telar::test {

/// A folder of 20 PNG images in two classes: cats/00.png … cats/09.png and dogs/10.png … dogs/19.png. Images
/// with the same number are the same in all such folders; the brightness of each grows with its number.
class PictureFolder {
 public:
  explicit PictureFolder(std::filesystem::path path) : path_(std::move(path)) {
    for (int i = 0; i < 20; ++i) write(i, bytes_of(i));
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(int number) const {
    return path_ / fmt::format("{}/{:02}.png", number < 10 ? "cats" : "dogs", number);
  }
  /// Cuts the file off after this many bytes.
  void cut(int number, size_t bytes) const { write(number, bytes_of(number).substr(0, bytes)); }
  void damage(int number) const { cut(number, bytes_of(number).size() / 2); }
  /// Damages the pixels; header and size of the file stay.
  void damage_inside(int number) const {
    std::string bytes = bytes_of(number);
    std::fill(bytes.begin() + 60, bytes.end(), 'x');
    write(number, bytes);
  }

 private:
  static std::string bytes_of(int number) {
    Image image{16, 16, 3, Bytes(768)};
    for (size_t i = 0; i < image.pixels.size(); ++i)
      image.pixels[i] = static_cast<uint8_t>(12 * number + (i * i * 7) % 12);
    const std::vector<uint8_t> png = png_of(image);
    return {png.begin(), png.end()};
  }
  void write(int number, const std::string& bytes) const { write_text(file(number), bytes); }

  std::filesystem::path path_;
};

}  // namespace telar::test
