#include "telar/data/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
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
#include "telar/core/shape.h"
#include "telar/io/disk.h"
#include "telar/observe/process.h"

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

/// The system grants more memory than it has, and ends the process that uses it; this sentence comes before.
void require_room(const std::string& path, uint64_t bytes) {
  constexpr uint64_t kAlwaysFits = uint64_t{64}
                                   << 20U;  // looking up the memory costs as much as a small file
  if (bytes < kAlwaysFits) return;
  const uint64_t usable = usable_memory_bytes();
  if (usable == 0 || bytes <= usable) return;
  throw user_error("{}: its contents, {} or more, do not fit in this machine's memory of {}", path,
                   bytes_text(bytes), bytes_text(usable));
}

}  // namespace

OpenFile::OpenFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t OpenFile::read(const std::string& path, uint64_t offset, std::span<std::byte> bytes) const {
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data() + have, bytes.size() - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw listed_file_error(path, errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  return have;
}

uint64_t file_size_of(const std::string& path) {
  require_local(path);
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
  require_room(path, size);
  Bytes bytes(size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<uint64_t>(file.gcount()) != size) {
    throw user_error("{}: only {} of its {} bytes could be read", path, file.gcount(), size);
  }
  return bytes;
}

Error listed_file_error(const std::string& path, int number) {
  return run_error("{}: was listed in its folder, but cannot be read: {}", path,
                   std::generic_category().message(number));
}

Bytes read_listed_file(const std::string& path) {
  const OpenFile file(path);
  if (file.descriptor() < 0) throw listed_file_error(path, errno);
  struct stat status = {};
  if (::fstat(file.descriptor(), &status) != 0) throw listed_file_error(path, errno);
  require_room(path, static_cast<uint64_t>(status.st_size));
  constexpr size_t kLeast = 1 << 12;  // also notices a file that has grown
  Bytes bytes(static_cast<size_t>(status.st_size) + kLeast);
  size_t have = 0;
  for (;;) {
    have += file.read(path, have, std::as_writable_bytes(std::span(bytes).subspan(have)));
    if (have < bytes.size()) break;
    bytes.resize(2 * have);
  }
  bytes.resize(have);
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
    require_room(path, have + wanted);
    bytes.resize(have + wanted);
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

Bytes read_unpacked(const std::string& path) {
  return is_gzip(path) ? read_gzip(path, most_bytes_in(path)) : read_file(path);
}

uint64_t most_bytes_in(const std::string& path) {
  constexpr int64_t kDeflateRatio = 1032;
  const uint64_t size = file_size_of(path);
  if (!is_gzip(path)) return size;
  return static_cast<uint64_t>(product_of({static_cast<int64_t>(size), kDeflateRatio}));
}

}  // namespace telar
