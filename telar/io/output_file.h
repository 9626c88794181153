#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace telar {

/// A file open for writing, without a buffer of its own: when write() returns, the system has received every
/// byte. Each failure (full disk, short write, lost permission) throws the error of disk_error()
/// (telar/io/disk.h), which names the path, the system's reason and the free space. The destructor closes the
/// file but does not sync it: call sync() first for data that must survive a power failure.
class OutputFile {
 public:
  enum class Mode {
    truncate,  ///< create the file, or empty an existing one
    append,    ///< create the file, or continue at the end of an existing one; a symbolic link is an error
    create     ///< create the file; an existing one is an error
  };

  OutputFile(std::filesystem::path path, Mode mode);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// All bytes or, in a regular file, none.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Waits until the bytes are on the storage device. Has no effect on files that cannot be synced (pipes,
  /// terminals).
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  friend class AtomicFile;
  /// Takes ownership of an open descriptor.
  OutputFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  void take_back(size_t bytes) const;
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Makes changes of names in `folder` (files created, renamed or removed there) survive a power failure.
void sync_folder(const std::filesystem::path& folder);

}  // namespace telar
