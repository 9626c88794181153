#include "telar/io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "telar/io/disk.h"

namespace telar {
namespace {

// Linux transfers at most 2 GiB per write.
constexpr size_t kLargestWrite = size_t{1} << 30;

int flags_of(OutputFile::Mode mode) {
  switch (mode) {
    case OutputFile::Mode::truncate: return O_TRUNC;
    case OutputFile::Mode::append: return O_APPEND | O_NOFOLLOW;
    case OutputFile::Mode::create: return O_EXCL | O_NOFOLLOW;
  }
  return 0;
}

// Files that have nothing to sync report EINVAL, ENOTSUP or EROFS: pipes, terminals, some network file
// systems.
bool cannot_be_synced(int code) { return code == EINVAL || code == ENOTSUP || code == EROFS; }

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, Mode mode) : path_(std::move(path)) {
  require_local(path_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags_of(mode), 0666);
  if (descriptor_ < 0) throw disk_error("create", path_, errno);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written =
        ::write(descriptor_, bytes.data() + done, std::min(bytes.size() - done, kLargestWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int code = written < 0 ? errno : ENOSPC;
      take_back(done);
      throw disk_error("write", path_, code);
    }
    done += static_cast<size_t>(written);
  }
}

/// Removes the last bytes, so that a line of a log is never cut in the middle.
void OutputFile::take_back(size_t bytes) const {
  struct stat status = {};
  if (bytes == 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) return;
  const off_t before = status.st_size - static_cast<off_t>(bytes);
  if (::ftruncate(descriptor_, before) == 0) ::lseek(descriptor_, before, SEEK_SET);
}

void OutputFile::sync() {
  if (::fsync(descriptor_) != 0 && !cannot_be_synced(errno)) throw disk_error("sync", path_, errno);
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw disk_error("open the folder", folder, errno);
  const int code = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (code != 0 && !cannot_be_synced(code)) throw disk_error("sync the folder", folder, code);
}

}  // namespace telar
