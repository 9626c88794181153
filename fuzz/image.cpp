#include "telar/data/pictures/image.h"

#include <sstream>

#include "telar/core/error.h"

/// Reads the header, then the file by both rules, upright and as it is stored, in grey and in colours.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const telar::PictureReading reading{data[0] % 2 == 0 ? 1 : 3, 1 + data[0] / 2 % 2, data[0] / 4 % 2 == 0};
  const std::span<const uint8_t> file(data + 1, size - 1);
  try {
    std::istringstream stream(std::string(file.begin(), file.end()));
    telar::check_image_header(stream, "image");
  } catch (const telar::Error&) {
  }
  try {
    telar::decode_image(file, reading, "image");
  } catch (const telar::Error&) {
  }
  return 0;
}
