#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "telar/weave/request.h"

namespace telar::cli {

/// A file's bytes, or nothing when it is no regular file. Throws Error (user) when it is there and cannot be read.
std::optional<std::string> bytes_of_file(const std::filesystem::path& path);

/// The path of a script within its project; it may be given from here or from the project's folder. Throws Error (user) when it
/// is in neither.
std::string path_within(const std::filesystem::path& project, const std::string& script);

/// Copies a project's folder (but for hidden entries and __pycache__) with the woven files in it. What was at the output's paths is
/// overwritten. Throws Error (user) when the output is the project itself.
void write_project(const std::filesystem::path& project, const std::filesystem::path& output,
                   const std::vector<weave::WovenFile>& files);

/// A project with woven files in a temporary folder; what was not woven is linked there. It is removed in the end, unless the program
/// left files in it.
class TemporaryProject {
 public:
  TemporaryProject(const std::filesystem::path& project, const std::vector<weave::WovenFile>& files);
  ~TemporaryProject();
  TemporaryProject(const TemporaryProject&) = delete;
  TemporaryProject& operator=(const TemporaryProject&) = delete;
  const std::filesystem::path& folder() const { return folder_; }
  /// Whether the program left files of its own, which the folder is kept for.
  bool keeps_files() const;

 private:
  void link(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& within);

  const std::vector<weave::WovenFile>& files_;
  std::filesystem::path folder_;
};

}  // namespace telar::cli
