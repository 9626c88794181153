#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "telar/weave/request.h"

namespace telar::cli {

/// The bytes of a file, or nothing if it is not a regular file. Throws Error (user) if it cannot be read.
std::optional<std::string> bytes_of_file(const std::filesystem::path& path);

/// The path of a script within its project. `script` is relative to the current folder or to the project's
/// folder. Throws Error (user) if there is no such script in the project.
std::string path_within(const std::filesystem::path& project, const std::string& script);

/// Copies a project's folder with the woven files in it. Hidden entries, __pycache__ and virtual environments
/// are left out; existing files at the output's paths are overwritten. Throws Error (user) if the output is
/// the project itself, a folder around it, or not a folder.
void write_project(const std::filesystem::path& project, const std::filesystem::path& output,
                   const std::vector<weave::WovenFile>& files);

/// A project with woven files in a temporary folder; the other files are links to the project. The destructor
/// removes the folder unless the program wrote files to it.
class TemporaryProject {
 public:
  TemporaryProject(const std::filesystem::path& project, const std::vector<weave::WovenFile>& files);
  ~TemporaryProject();
  TemporaryProject(const TemporaryProject&) = delete;
  TemporaryProject& operator=(const TemporaryProject&) = delete;
  const std::filesystem::path& folder() const { return folder_; }
  /// Whether the folder is kept because the program wrote files to it.
  bool keeps_files() const;

 private:
  void link(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& within);

  const std::vector<weave::WovenFile>& files_;
  std::filesystem::path folder_;
};

}  // namespace telar::cli
