#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

#include "telar/core/shape.h"

namespace telar::test {

/// The header of a .npy file as NumPy writes it. `type`: "<f4". `shape`: "(3, 4)" or "(3,)".
inline std::string npy_header(const std::string& type, const std::string& shape) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type, shape);
  header.resize(117, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n";
}

template <typename T>
std::string npy_type() {
  if constexpr (std::is_same_v<T, uint8_t>) return "|u1";
  return fmt::format("<{}{}", std::is_floating_point_v<T> ? 'f' : 'i', sizeof(T));
}

/// Writes an array whose entries of axis 0 have the shape `sample`.
template <typename T>
void write_npy(const std::filesystem::path& path, const std::vector<T>& values, const Shape& sample = {}) {
  std::string shape = fmt::format("{},", values.size() / static_cast<size_t>(sample.elements()));
  for (const int64_t extent : sample) shape += fmt::format(" {},", extent);
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << npy_header(npy_type<T>(), "(" + shape + ")");
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

}  // namespace telar::test
