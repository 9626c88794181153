#include "telar/train/file_digest.h"

#include <zlib.h>

#include <fstream>
#include <vector>

#include "telar/core/error.h"

namespace telar {

uint32_t crc32_of(std::string_view bytes, uint32_t before) {
  return static_cast<uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

FileDigest digest_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  FileDigest digest;
  std::vector<char> piece(1 << 18);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    const auto count = static_cast<size_t>(file.gcount());
    digest.bytes += count;
    digest.crc32 = crc32_of({piece.data(), count}, digest.crc32);
  }
  if (!file.eof()) throw run_error("cannot read {}", path.string());
  return digest;
}

void require_digest(const std::filesystem::path& path, const FileDigest& right) {
  const FileDigest digest = digest_of(path);
  if (digest.bytes != right.bytes) {
    throw user_error("{} has {} bytes; it was written with {}", path.string(), digest.bytes, right.bytes);
  }
  if (digest.crc32 != right.crc32) {
    throw user_error("{} has changed since it was written: its CRC-32 is {:08x} in place of {:08x}",
                     path.string(), digest.crc32, right.crc32);
  }
}

}  // namespace telar
