#pragma once

#include <filesystem>
#include <optional>

namespace telar {

/// A folder that one process has for itself. The kernel takes the lock from a process that ends.
class FolderLock {
 public:
  /// None: another one has it. Throws Error if the folder cannot be opened.
  static std::optional<FolderLock> take(const std::filesystem::path& folder);

  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&& other) noexcept;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace telar
