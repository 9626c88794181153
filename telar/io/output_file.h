#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace telar {

/// A file open for writing, without a buffer of its own: when write() returns, the system has every byte. Each
/// failure (full disk, short write, lost permission) is an Error (run) that names the path, the system's reason
/// and the free space. Closed by the destructor; what must survive a power cut is synced first.
class OutputFile {
 public:
  enum class Mode {
    truncate,  ///< create it, or empty the one that exists
    append,    ///< create it, or continue at its end
    create     ///< create it; one that exists is an error
  };

  OutputFile(std::filesystem::path path, Mode mode);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Waits until the bytes are on the storage device. Files that cannot be synced (pipes, terminals) are left alone.
  void sync();

  const std::filesystem::path& path() const { return path_; }

 private:
  friend class AtomicFile;
  /// Takes over an open descriptor.
  OutputFile(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Makes the names in `folder` (what was created, renamed or removed there) survive a power cut.
void sync_folder(const std::filesystem::path& folder);

}  // namespace telar
