#include "telar/io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "telar/io/disk.h"

namespace telar {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp-";

fs::path temporary_for(const fs::path& path) {
  return path.parent_path() / fmt::format("{}{}{}", path.filename().string(), kMark, ::getpid());
}

bool is_temporary_name(const std::string& name) {
  const size_t mark = name.rfind(kMark);
  if (mark == std::string::npos || mark + kMark.size() == name.size()) return false;
  return std::all_of(name.begin() + static_cast<std::ptrdiff_t>(mark + kMark.size()), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// `path` without a trailing slash.
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// The actual location of `path`, with symbolic links followed; a name without a folder is in the current
/// one.
fs::path resolved(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as Linux has it
  std::error_code error;
  fs::path place = parent_of(path) / path.filename();
  for (int links = 0; links < kMostLinks && fs::is_symlink(place, error); ++links)
    place = place.parent_path() / fs::read_symlink(place);
  return place;
}

fs::path file_target(const fs::path& path, Links links) {
  require_local(path);
  std::error_code error;
  if (links == Links::refuse) refuse_link(path);
  fs::path target = resolved(path);
  if (fs::exists(target, error) && !fs::is_regular_file(target, error)) {
    throw user_error("cannot write {}: it is not a file; name an existing file or a new one", path.string());
  }
  return target;
}

/// Whether `path` still names the open file: not if it was removed in the meantime.
bool still_named(int descriptor, const fs::path& path) {
  struct stat open_one = {};
  struct stat named_one = {};
  return ::fstat(descriptor, &open_one) == 0 && ::stat(path.c_str(), &named_one) == 0 &&
         open_one.st_ino == named_one.st_ino && open_one.st_dev == named_one.st_dev;
}

/// Opens with `flags` and locks; returns -1 when another process or thread holds the lock. The lock ends with
/// the descriptor, and so with the process, however that ends. `wanted`: the path for messages.
int open_locked(const fs::path& path, const fs::path& wanted, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) {
    throw disk_error("write", wanted, errno);
  }
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return descriptor;
  ::close(descriptor);
  return -1;
}

/// Opens and locks what `make` creates at `path`; repeats this if a process that removes leftovers deleted it
/// in between.
template <typename Make>
int claim(const fs::path& path, const fs::path& wanted, int flags, Make make) {
  for (;;) {
    make();
    const int descriptor = open_locked(path, wanted, flags);
    if (descriptor < 0) {
      throw user_error("{} is being written by another process or thread; wait until it has finished",
                       wanted.string());
    }
    if (still_named(descriptor, path)) return descriptor;
    ::close(descriptor);
  }
}

int claim_file(const fs::path& path, const fs::path& wanted) {
  const int descriptor = claim(path, wanted, O_WRONLY | O_CREAT, [] {});
  if (::ftruncate(descriptor, 0) != 0) {
    const int code = errno;
    ::close(descriptor);
    throw disk_error("write", wanted, code);
  }
  return descriptor;
}

int claim_folder(const fs::path& path, const fs::path& wanted) {
  const int descriptor = claim(path, wanted, O_RDONLY | O_DIRECTORY, [&] {
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      throw disk_error("create the folder", wanted, errno);
    }
  });
  std::error_code error;
  for (const auto& leftover : fs::directory_iterator(path, error)) fs::remove_all(leftover.path(), error);
  return descriptor;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw disk_error("rename to " + to.string() + " the file", from, errno);
  }
}

/// Each takes the other's name at once. Returns false if the file system cannot do that.
bool exchange(const fs::path& one, const fs::path& other) {
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
}

void sync_tree(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error)) {
      sync_tree(entry.path());
    } else {
      OutputFile(entry.path(), OutputFile::Mode::append).sync();
    }
  }
  if (error) throw disk_error("list the folder", folder, error.value());
  sync_folder(folder);
}

}  // namespace

void refuse_link(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return;
  throw user_error(
      "{} is a symbolic link; telar does not write through links here; put a file or folder in its place",
      path.string());
}

AtomicFile::AtomicFile(const fs::path& path, Links links)
    : path_(file_target(path, links)), file_(temporary_for(path_), claim_file(temporary_for(path_), path_)) {}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!committed_) fs::remove(file_.path(), ignored);
}

void AtomicFile::commit() {
  file_.sync();
  rename_or_throw(file_.path(), path_);
  committed_ = true;
  sync_folder(path_.parent_path());
}

void write_file(const fs::path& path, std::string_view text, Links links) {
  AtomicFile file(path, links);
  file.write(text);
  file.commit();
}

AtomicFolder::AtomicFolder(const fs::path& path, bool replaces)
    : path_(parent_of(without_slash(path)) / without_slash(path).filename()),
      temporary_(temporary_for(path_)),
      replaces_(replaces) {
  if (!replaces && fs::exists(path_))
    throw user_error("the folder {} exists already; it is not overwritten", path.string());
  lock_ = claim_folder(temporary_, path_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
  ::close(lock_);
}

OutputFile AtomicFolder::create(const std::string& name) const {
  return {temporary_ / name, OutputFile::Mode::create};
}

void AtomicFolder::commit() {
  sync_tree(temporary_);
  const bool exists = fs::exists(path_);
  if (exists && !replaces_)
    throw user_error("the folder {} exists already; it is not overwritten", path_.string());
  const bool exchanged = exists && exchange(temporary_, path_);
  if (!exchanged) {
    fs::remove_all(path_);
    rename_or_throw(temporary_, path_);
  }
  committed_ = true;
  sync_folder(path_.parent_path());
  std::error_code ignored;
  if (exchanged) fs::remove_all(temporary_, ignored);
}

int remove_leftovers(const fs::path& parent) {
  std::error_code error;
  std::vector<fs::path> candidates;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    if (is_temporary_name(entry.path().filename().string())) candidates.push_back(entry.path());
  }
  int removed = 0;
  for (const auto& candidate : candidates) {
    const int descriptor = ::open(candidate.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) continue;
    const bool abandoned = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 && still_named(descriptor, candidate);
    if (abandoned && fs::remove_all(candidate, error) > 0 && !error) ++removed;
    ::close(descriptor);
  }
  return removed;
}

}  // namespace telar
