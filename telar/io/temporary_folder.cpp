#include "telar/io/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "telar/io/disk.h"

namespace telar {

TemporaryFolder::TemporaryFolder(const std::string& name, const std::filesystem::path& parent) {
  const std::filesystem::path folder = parent.empty() ? std::filesystem::temp_directory_path() : parent;
  std::string pattern = (folder / (name + "-XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr) throw disk_error("make a folder", pattern, errno);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace telar
