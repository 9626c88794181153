#include "telar/data/files.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>

#include "telar/core/error.h"

namespace telar {
namespace {

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

bool is_gzip(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[2] = {};
  file.read(magic, sizeof magic);
  return file.gcount() == 2 && magic[0] == '\x1f' && magic[1] == '\x8b';
}

Bytes allocate(const std::string& path, uint64_t bytes) {
  try {
    return Bytes(bytes);
  } catch (const std::exception&) {
    throw user_error("{}: its {} bytes do not fit in this machine's memory", path, bytes);
  }
}

}  // namespace

uint64_t file_size_of(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw user_error("{}: there is no such file", path);
  if (!std::filesystem::is_regular_file(status)) {
    throw user_error("{}: is a {}, but a file was expected", path,
                     std::filesystem::is_directory(status) ? "folder" : "device or pipe");
  }
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw user_error("{}: cannot be read: {}", path, error.message());
  return size;
}

Bytes read_file(const std::string& path) {
  const uint64_t size = file_size_of(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw user_error("{}: cannot be opened: {}", path, std::strerror(errno));
  Bytes bytes = allocate(path, size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<uint64_t>(file.gcount()) != size) {
    throw user_error("{}: only {} of its {} bytes could be read", path, file.gcount(), size);
  }
  return bytes;
}

Bytes read_gzip(const std::string& path, uint64_t limit) {
  file_size_of(path);
  const GzipFile file(gzopen(path.c_str(), "rb"));
  if (!file) throw user_error("{}: cannot be opened: {}", path, std::strerror(errno));
  gzbuffer(file.get(), 1U << 18U);
  constexpr uint64_t kPiece = uint64_t{1} << 24U;
  Bytes bytes;
  bytes.reserve(std::min(limit, 4 * kPiece));
  while (bytes.size() < limit) {
    const size_t have = bytes.size();
    const auto wanted = static_cast<unsigned>(std::min(kPiece, limit - have));
    try {
      bytes.resize(have + wanted);
    } catch (const std::exception&) {
      throw user_error("{}: its contents do not fit in this machine's memory ({} bytes so far)", path, have);
    }
    const int got = gzread(file.get(), bytes.data() + have, wanted);
    bytes.resize(have + static_cast<size_t>(std::max(got, 0)));
    int code = Z_OK;
    const char* what = gzerror(file.get(), &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw user_error("{}: the gzip data is damaged or cut off after {} bytes of contents ({})", path,
                       bytes.size(), what);
    }
    if (static_cast<unsigned>(got) < wanted) break;
  }
  return bytes;
}

uint64_t most_bytes_in(const std::string& path) {
  constexpr uint64_t kDeflateRatio = 1032;
  const uint64_t size = file_size_of(path);
  return is_gzip(path) ? saturating_product(size, kDeflateRatio) : size;
}

uint64_t saturating_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

}  // namespace telar
