#pragma once

#include <cstdint>
#include <string>

/// The bytes of IDX files.
namespace telar::test {

inline std::string big_endian(uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift);
  return bytes;
}

inline std::string idx_images(uint32_t stated, uint32_t real, uint32_t size = 28) {
  return std::string("\0\0\x08\x03", 4) + big_endian(stated) + big_endian(size) + big_endian(size) +
         std::string(static_cast<size_t>(real) * size * size, '\x40');
}

inline std::string idx_labels(uint32_t count, char largest = 9) {
  std::string labels;
  for (uint32_t i = 0; i < count; ++i) labels += static_cast<char>(i % 10);
  labels.back() = largest;
  return std::string("\0\0\x08\x01", 4) + big_endian(count) + labels;
}

}  // namespace telar::test
