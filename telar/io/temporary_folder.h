#pragma once

#include <filesystem>
#include <string>

namespace telar {

/// A new folder that the destructor removes, with all its contents.
class TemporaryFolder {
 public:
  /// Creates it in the system's folder for temporary files, or in `parent`; its name begins with `name`.
  /// Throws the error of disk_error() (telar/io/disk.h) when it cannot be created.
  explicit TemporaryFolder(const std::string& name, const std::filesystem::path& parent = {});
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace telar
