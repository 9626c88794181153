#include "telar/data/file_pattern.h"

#include <algorithm>
#include <filesystem>

#include "telar/core/error.h"

namespace telar {

namespace fs = std::filesystem;

bool is_file_pattern(const std::string& path) {
  return fs::path(path).filename().string().find('*') != std::string::npos && !fs::exists(path);
}

std::map<std::string, std::string> files_of_pattern(const std::string& pattern) {
  if (std::ranges::count(pattern, '*') != 1)
    throw user_error("{}: it must have one '*', in the name of the files", pattern);
  const fs::path path = pattern;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string name = path.filename().string();
  const std::string before = name.substr(0, name.find('*'));
  const std::string after = name.substr(before.size() + 1);
  if (!fs::is_directory(folder)) throw user_error("{}: there is no such folder", folder.string());
  std::map<std::string, std::string> files;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string found = entry.path().filename().string();
      if (found.size() < before.size() + after.size() || found.starts_with('.') || !entry.is_regular_file())
        continue;
      if (!found.starts_with(before) || !found.ends_with(after)) continue;
      files.emplace(found.substr(before.size(), found.size() - before.size() - after.size()),
                    (path.parent_path() / found).string());
    }
  } catch (const fs::filesystem_error& error) {
    throw user_error("{}: cannot be read: {}", folder.string(), error.code().message());
  }
  if (files.empty()) throw user_error("{}: there are no such files", pattern);
  return files;
}

}  // namespace telar
