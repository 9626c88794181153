#pragma once

#include <filesystem>
#include <string>

namespace telar {

/// A new folder that is removed, with all that is in it, when this object goes.
class TemporaryFolder {
 public:
  /// In the system's folder for such, or in `parent`; its name begins with `name`. Throws Error (run) when it cannot be made.
  explicit TemporaryFolder(const std::string& name, const std::filesystem::path& parent = {});
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace telar
